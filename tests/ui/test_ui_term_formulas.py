"""The formulas of the Explain page mean what the code computes: each is written out here in NumPy, number by number."""

import re

import numpy as np
import pytest

from lps.methods import Progress
from lps.settings import catalog
from lps.ui.forms.term_formulas import FORMULAS, Formula, formula_of
from tests.scenes import CLASSES, scene

VIEWS = {"w": 0, "w_1": 0, "w_2": 1, "s": -1}  # letter of a view -> its place among the views of a batch


class World:
    """Random rows, and what the letters of a shown formula stand for in them, taken from its words and not from code.

    z, h (views, rows, ...): logits and features; y (rows,): labels, given or guessed; passes (rows,) bool.
    """

    def __init__(self, method, batch, shown: Formula, threshold_novel: float):
        self.z = method.network.logits.detach().double().numpy()
        self.h = method.network.features.detach().double().numpy()
        self.labeled, self.shown = len(batch.targets), shown
        q = softmax(self.z[-2])
        self.y, sure = q.argmax(1), q.max(1)
        self.passes = sure >= np.where(self.y < CLASSES.seen, 0.95, threshold_novel)
        self.y[: self.labeled], self.passes[: self.labeled] = batch.targets.numpy(), True
        self.pi_hat = q[self.passes].mean(0)

    def number(self, symbol: str) -> float:
        found = re.search(re.escape(f"${symbol}=") + r"([\d.]+)(?:\\cdot10\^\{(-?\d+)\})?\$", self.shown.numbers)
        return float(found[1]) * 10.0 ** int(found[2] or 0)

    def view(self, letter: str) -> int:
        """The place of a view among those of a batch; a single weak view has no number."""
        assert letter == "s" or (letter == "w") == (len(self.z) == 2)
        return VIEWS[letter]

    def named_view(self) -> np.ndarray:
        """The logits of the view that the letters name."""
        place = 1 if "the second weak view" in self.shown.letters else 0
        assert ("first weak view" in self.shown.letters) == (len(self.z) == 3)
        return self.z[place]

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(s (rows, rows), y, passes) of the rows of both views that the letters name."""
        first, second = re.search(r"\$(\w+)\$ and \$(\w+)\$", self.shown.letters).groups()
        rows = {"z": self.z, "h": self.h}[re.search(r"s_\{ab\}=.*?([zh])_a", self.shown.numbers)[1]]
        vectors = np.concatenate([rows[self.view(first)], rows[self.view(second)]])
        if r"\cos" in self.shown.numbers:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors @ vectors.T, np.tile(self.y, 2), np.tile(self.passes, 2)

    def delta(self) -> np.ndarray:
        scale = float(re.search(r"\\delta_k=([\d.]+)\\cdot", self.shown.numbers)[1])
        pi, k = np.full(CLASSES.total, 1 / CLASSES.total), self.pi_hat
        first, second = (pi, k) if r"\pi\,\|\,\hat\pi" in self.shown.numbers else (k, pi)
        return scale * np.sum(first * np.log(first / second)) * k / k.max()


def softmax(z):
    powers = np.exp(z - z.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def adaptive_margin(world):
    return margin_term(world, world.delta())


def plain_cross_entropy(world):
    return margin_term(world, np.zeros(CLASSES.total))


def margin_term(world, delta):
    first, strong = (world.z[world.view(letter)] for letter in re.findall(r"\(z\^\{(\w+)\}_", world.shown.latex))

    assert ("the guess in the second weak view" in world.shown.letters) == (len(world.z) == 3)

    def loss(z, y):
        top = np.exp(z[y] + delta[y])
        return -np.log(top / (top + sum(np.exp(z[j]) for j in range(len(z)) if j != y)))

    others = range(world.labeled, len(world.y))
    labeled = sum(loss(first[i], world.y[i]) for i in range(world.labeled)) / world.labeled
    return labeled + sum(loss(strong[u], world.y[u]) for u in others if world.passes[u]) / len(others)


def positives_inside(world):
    return by_label(world, lambda terms: np.log(np.mean(terms)))


def positives_outside(world):
    return by_label(world, lambda terms: np.mean(np.log(terms)))


def by_label(world, of_positives):
    (s, y, passes), tau = world.rows(), world.number(r"\tau")
    members = np.flatnonzero(passes)
    total = 0.0
    for a in members:
        below = sum(np.exp(s[a, c] / tau) for c in members if c != a)
        total += of_positives([np.exp(s[a, b] / tau) / below for b in members if b != a and y[b] == y[a]])
    return -world.number(r"\eta_1") / len(members) * total


def over_all_rows(world):
    return by_view(world, 2 * len(world.y))


def over_waiting_rows(world):
    return by_view(world, 2 * np.sum(~world.passes))


def by_view(world, divisor):
    (s, _, passes), tau = world.rows(), world.number(r"\tau")
    rows, total = len(s), 0.0
    for a in np.flatnonzero(~passes):
        below = sum(np.exp(s[a, c] / tau) for c in range(rows) if c != a)
        total += np.log(np.exp(s[a, (a + rows // 2) % rows] / tau) / below)
    return -world.number(r"\eta_2") / divisor * total


def entropy(world):
    mean = softmax(world.named_view()).mean(0)
    return world.number("w") * np.sum(mean * np.log(mean))


BY_LABEL = r"\frac{e^{s_{ab}/\tau}}{\sum_{c\in M,\,c\ne a}e^{s_{ac}/\tau}}"
BY_VIEW = r"\sum_{a\in U}\log\frac{e^{s_{aa'}/\tau}}{\sum_{c\ne a}e^{s_{ac}/\tau}}"
BEGIN, END = r"\begin{aligned}&", r"\end{aligned}"
SUMS = (
    r"\frac1{B_l}\sum_{l}\ell(z^{W}_l,y_l)+\frac1{B_u}\sum_{u\text{ confident}}\ell(z^{s}_u,\hat y_u)\\"
    r"&\ell(z,y)=-\log"
)
MARGIN = r"\frac{e^{z_y+\delta_y}}{e^{z_y+\delta_y}+\sum_{j\ne y}e^{z_j}}"
MEANINGS = {  # a formula as it is shown, W for the weak view in it -> what it says
    BEGIN + SUMS + MARGIN + END: adaptive_margin,
    BEGIN + SUMS + r"\frac{e^{z_y}}{\sum_{j}e^{z_j}}" + END: plain_cross_entropy,
    r"-\frac{\eta_1}{|M|}\sum_{a\in M}\log\frac1{|P_a|}\sum_{b\in P_a}" + BY_LABEL: positives_inside,
    r"-\frac{\eta_1}{|M|}\sum_{a\in M}\frac1{|P_a|}\sum_{b\in P_a}\log" + BY_LABEL: positives_outside,
    r"-\frac{\eta_2}{2B}" + BY_VIEW: over_all_rows,
    r"-\frac{\eta_2}{|U|}" + BY_VIEW: over_waiting_rows,
    r"w\,\big(\mathrm{KL}(\bar p\,\|\,\pi)-\log K\big)": entropy,
}
SETTINGS = [
    {},
    {"pseudo_label_weight": 0.5, "unsupervised_weight": 2.0, "entropy_weight": 0.3, "temperature": 0.7},
    {"pseudo_label_weight": 0.0, "unsupervised_weight": 2e-5, "entropy_weight": 0.0},
    {"kl_direction": "est_to_uniform", "margin_scale": 2.5},
    {"use_margin": False},
    {"margin_scale": 0.0},
    {"contrast_space": "raw_logits", "temperature": 5.0},
    {"contrast_space": "features", "weak_views": "1"},
    {"contrast_normalizer": "subset"},
    {"contrast_variant": "out", "weak_views": "1"},
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("own", SETTINGS, ids=lambda own: ",".join(f"{k}={v}" for k, v in own.items()) or "usual")
def test_every_formula_says_what_the_code_computes(own, seed):
    method, batch = scene("lps", views=2 if own.get("weak_views") == "1" else 3, seed=seed, scale=2.5, **own)
    _, measured = method.loss(batch, Progress(epoch=5, epochs=20, step=0, steps=10))
    settings = {name: about.default for name, about in catalog.method_info("lps").parameters.items()} | own
    for term in FORMULAS:
        shown = formula_of(term, settings)
        world = World(method, batch, shown, threshold_novel=0.5)
        meaning = MEANINGS[re.sub(r"\^\{w(_1)?\}", "^{W}", shown.latex)]
        assert meaning(world) == pytest.approx(measured[f"loss/{term}"].item(), rel=2e-4, abs=1e-6), term
        assert 0 < world.passes[world.labeled :].sum() < len(world.y) - world.labeled  # some pass, some wait


def test_other_terms_have_no_formula():
    assert formula_of("pairwise", {}) is None
