"""The Explain page in every state, through app.py, without a browser; its figures and words on their own."""

import base64
import re

import numpy as np
import pytest

from lps.charts import explain_charts
from lps.charts.palette import LIGHT
from lps.scores import margin_math
from lps.scores.purity import Adoption
from lps.settings import catalog
from lps.store.runs import Run
from lps.ui.explain import distribution, objective, thresholds
from lps.ui.explain import margin as margins
from lps.ui.forms import form
from lps.ui.forms.term_formulas import formula_of
from lps.ui.shared.history import read_history
from tests.sample_runs import held, make_damaged, make_foreign, make_run, make_unreadable, rewritten, without
from tests.shares import in_turn
from tests.visiting import charts_of, words_of

PAGE = "explain"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    runs = {"lps": make_run(root, epochs=6), "plain": make_run(root, epochs=3, settings={"use_margin": False})}
    runs["orca"] = make_run(root, epochs=3, settings={"method": "orca"})
    runs["gcd"] = without(make_run(root, epochs=3, settings={"method": "gcd"}), "margin", "pi_hat", "threshold/", "kl")
    runs["many"] = with_many_classes(make_run(root, epochs=3, name="many"))
    runs["queued"] = make_run(root, "queued")
    runs["running"] = make_run(root, "running", written=4, epochs=10, settings={"margin_scale": 4.0})
    with held(runs["running"]):
        yield runs


def with_many_classes(run: Run) -> Run:
    """The run with made-up vectors of 100 classes, 40 of them seen."""
    shares = np.random.default_rng(0).dirichlet(np.ones(100))

    def change(kind, values):
        values |= {"classes/seen": 40, "classes/total": 100} if "classes/seen" in values else {}
        vectors = {"pi_hat": shares.tolist(), "margin": (5 * shares / shares.max()).tolist()}
        return values | (vectors if "pi_hat" in values else {})

    return rewritten(run, change)


def root_of(made):
    return made["lps"].root


def numbers(values) -> np.ndarray:
    """An array of a figure's JSON, which may be binary."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).astype(float)
    return np.asarray(values, float)


def bars(figure: dict) -> np.ndarray:
    """The heights of all bars, trace after trace."""
    return np.concatenate([numbers(trace["y"]) for trace in figure["data"] if trace["type"] == "bar"])


def formulas(app) -> str:
    return "\n".join(part.value for part in app.latex)


def captions(app) -> str:
    return "\n".join(part.value for part in app.caption)


def slider(app, label: str):
    return next(widget for widget in app.slider if widget.label.startswith(label))


QUESTIONS = [
    "What if?",
    "What if, with real pictures?",
    "Which classes does the model guess?",
    "How far is this from equal shares?",
    "How much is each class held back?",
]
QUESTIONS += ["How does this change the training of one image?", "When does a guess become a pseudo-label?"]
QUESTIONS += ["Which terms does the loss have?"]


def test_without_any_run_the_page_teaches_with_presets(open_page, tmp_path):
    app = open_page(tmp_path / "nothing")
    assert [part.value for part in app.subheader] == QUESTIONS
    figures = charts_of(app)
    assert set(figures) == {f"explain_{n}" for n in "shares margins probabilities pushes pulls thresholds".split()}
    assert all(figure["alt"] for figure in figures.values())
    np.testing.assert_allclose(bars(figures["explain_shares"]), distribution.mix_distribution(0.75, 0.1, 0.35))
    assert "From a run" not in str(app.segmented_control) and "example distributions" in words_of(app)
    assert "does not know the true shares" in words_of(app)
    assert figures["explain_shares"]["layout"]["xaxis"]["ticktext"] == [f"{g}{i}" for g in "SN" for i in range(1, 6)]
    assert "LPS minimizes the sum of four terms" in words_of(app) and "with default settings" in words_of(app)
    for term in objective.LPS_TERMS:
        shown = formula_of(term, distribution.default_settings())
        assert shown.latex in formulas(app) and shown.numbers in captions(app)


def test_only_foreign_folders(open_page, tmp_path):
    make_foreign(tmp_path)
    app = open_page(tmp_path, **{"from": "run"})
    assert [part.value for part in app.subheader] == QUESTIONS
    assert "recorded no epoch yet" in words_of(app)


@pytest.mark.parametrize("preset", in_turn([*distribution.PRESETS], 2))
def test_presets(open_page, tmp_path, preset):
    app = open_page(tmp_path, **{"from": preset})
    figures = charts_of(app)
    shares = bars(figures["explain_shares"])
    np.testing.assert_allclose(
        shares, distribution.mix_distribution(*(v / 100 for v in distribution.PRESETS[preset][1]))
    )
    divergence = margin_math.kl_from_prior(shares)
    np.testing.assert_allclose(bars(figures["explain_margins"]), margin_math.margins(shares, divergence, 10))
    assert f"**{divergence:.3f}**" in words_of(app) and f"**{margin_math.kl_from_estimate(shares):.3f}**" in words_of(
        app
    )
    assert ("Every margin is 0" in words_of(app)) == (preset == "balanced")
    if preset == "one":
        assert ":orange[**N1**] (novel) gets" in words_of(app)  # a novel class can be the one that is held back


def test_sliders_move_the_distribution_and_stand_in_the_address(open_page, tmp_path):
    app = open_page(tmp_path)
    slider(app, "All seen").set_value(90).run()
    slider(app, "Imbalance among novel").set_value(0).run()
    shares = bars(charts_of(app)["explain_shares"])
    np.testing.assert_allclose(shares, distribution.mix_distribution(0.9, 0.1, 0))
    assert app.query_params["seen"] == "90" and app.query_params["novel_uneven"] == "0"
    again = open_page(tmp_path, seen="90", novel_uneven="0")
    np.testing.assert_allclose(bars(charts_of(again)["explain_shares"]), shares)
    slider(app, "All seen").set_value(75).run()
    assert "seen" not in app.query_params  # the usual value needs no word


def test_another_preset_begins_with_its_own_numbers(open_page, tmp_path):
    app = open_page(tmp_path, seen="90", C="3")
    app.segmented_control[0].set_value("balanced").run()
    np.testing.assert_allclose(bars(charts_of(app)["explain_shares"]), 0.1)
    assert app.query_params["from"] == "balanced" and "seen" not in app.query_params and "C" not in app.query_params


def test_twice_the_scale_is_twice_the_margin_also_where_the_address_lags_behind(open_page, tmp_path):
    app = open_page(tmp_path)
    before = bars(charts_of(app)["explain_margins"])
    slider(app, "C,").set_value(20.0).run()
    np.testing.assert_allclose(bars(charts_of(app)["explain_margins"]), 2 * before)
    assert app.query_params["C"] == "20" and rf"={2 * before.max():.2f}" in formulas(app)
    app.query_params.clear()  # what a browser sends that has not heard of the 20 yet
    app.run()
    assert slider(app, "C,").value == 20.0 and app.query_params["C"] == "20"
    slider(app, "C,").set_value(0.0).run()
    assert not bars(charts_of(app)["explain_margins"]).any() and "Every margin is 0" in words_of(app)


def test_the_other_direction_of_kl(open_page, tmp_path):
    app = open_page(tmp_path, kl=margin_math.ESTIMATE_FIRST)
    shares = bars(charts_of(app)["explain_shares"])
    expected = margin_math.margins(shares, margin_math.kl_from_estimate(shares), 10)
    np.testing.assert_allclose(bars(charts_of(app)["explain_margins"]), expected)


@pytest.mark.parametrize("value", ["nan", "1e999", "-3", "", "12345"])
def test_nonsense_in_the_address_is_the_usual_value_or_the_nearest(open_page, tmp_path, value):
    app = open_page(tmp_path, C=value, seen=value, sure=value, **{"from": value, "class": value, "kl": value})
    found = slider(app, "C,").value
    assert found == {"-3": 0.0, "12345": margins.LARGEST_SCALE}.get(value, 10.0)


def test_one_image(open_page, tmp_path):
    app = open_page(tmp_path, sure="25", **{"class": "9"})
    shares = bars(charts_of(app)["explain_shares"])
    margin = bars(charts_of(app)["explain_margins"])[9]
    without_margin, with_margin = (numbers(t["y"]) for t in charts_of(app)["explain_probabilities"]["data"])
    assert without_margin[9] == pytest.approx(0.25) and without_margin.sum() == pytest.approx(1)
    logits = margin_math.example_logits(shares, 9, 0.25)
    np.testing.assert_allclose(with_margin, margin_math.probabilities(logits, 9, margin))
    plain, held_back = (numbers(t["y"]) for t in charts_of(app)["explain_pushes"]["data"])
    assert plain[9] == pytest.approx(0.75) and 0 < held_back[9] < plain[9]
    assert plain.sum() == pytest.approx(0) and held_back.sum() == pytest.approx(0)


def test_time_moves_the_novel_threshold(open_page, tmp_path):
    app = open_page(tmp_path, time="50")
    assert "After 50 % of the run" in words_of(app) and "at least 60 %" in words_of(app)
    assert r"=0.4+0.4\cdot0.50=0.60" in formulas(app)


def test_a_run_and_an_epoch(open_page, made):
    run = made["lps"]
    app = open_page(root_of(made), run=run.id, epoch="2")
    figures, past = charts_of(app), read_history(run)
    np.testing.assert_allclose(bars(figures["explain_shares"]), past.vector("pi_hat", 2), rtol=1e-5)
    rings = next(t for t in figures["explain_margins"]["data"] if t["name"] == "Recorded")
    np.testing.assert_allclose(numbers(rings["y"]), past.vector("margin", 2), rtol=1e-5)
    np.testing.assert_allclose(bars(figures["explain_margins"]), past.vector("margin", 2), rtol=1e-3)
    assert f"The value recorded in training, {past.column('kl').loc[2]:.3f}" in words_of(app)
    assert "In epoch 2, a **:blue[seen]** guess" in words_of(app) and "In epoch 2 the 4 terms of LPS" in words_of(app)
    assert [metric.value for metric in app.metric] == ["68\u00a0%", "43\u00a0%"]  # 0.55 + 0.4 / 3 and 0.2 + 0.7 / 3


def test_all_epoch_sliders_are_one_and_do_not_pull_back_one_that_is_dragged(open_page, made):
    app = open_page(root_of(made), run=made["lps"].id)

    def sliders():
        return [widget for widget in app.slider if widget.label == "Epoch"]

    assert [widget.value for widget in sliders()] == [6, 6, 6] and "epoch" not in app.query_params
    sliders()[1].set_value(4).run()
    assert [widget.value for widget in sliders()] == [4, 4, 4] and app.query_params["epoch"] == "4"
    sliders()[1].set_value(2)
    sliders()[0].set_value(6)  # where the browser still shows it
    sliders()[2].set_value(6).run()
    assert [widget.value for widget in sliders()] == [2, 2, 2] and app.query_params["epoch"] == "2"
    sliders()[0].set_value(5).run()  # alone, it is really moved
    assert [widget.value for widget in sliders()] == [5, 5, 5]


def test_another_run_brings_its_own_scale_unless_somebody_chose_one(open_page, made):
    app = open_page(root_of(made), run=made["lps"].id)
    assert slider(app, "C,").value == 10.0
    app.selectbox(key="picked_run").set_value(made["running"].id).run()
    assert slider(app, "C,").value == 4.0 and "C" not in app.query_params
    slider(app, "C,").set_value(7.5).run()
    app.selectbox(key="picked_run").set_value(made["lps"].id).run()
    assert slider(app, "C,").value == 7.5 and app.query_params["C"] == "7.5"


def test_rings_are_for_the_runs_own_numbers(open_page, made):
    for query in ({"C": "5"}, {"kl": margin_math.ESTIMATE_FIRST}):
        app = open_page(root_of(made), run=made["lps"].id, epoch="2", **query)
        assert "Recorded" not in [trace["name"] for trace in charts_of(app)["explain_margins"]["data"]]


def test_purity_is_that_of_the_stored_predictions_and_the_terms_add_up(open_page, made):
    app = open_page(root_of(made), run=made["lps"].id, epoch="6")
    found = thresholds.count_passing(made["lps"], 6, {"seen": 0.95, "novel": 0.8})
    assert found["seen"].passing > 0 and found["novel"].right > found["novel"].wrong
    assert thresholds.describe_purity(found).replace("\u00a0", " ") in words_of(app)
    figures = charts_of(app)
    assert f"{found['seen'].passing} of {found['seen'].images}" in figures["explain_passing"]["alt"]
    (trace,) = figures["explain_terms"]["data"]
    heights = numbers(trace["x"])
    assert trace["measure"] == ["relative"] * 4 + ["total"] and heights[:-1].sum() == pytest.approx(heights[-1])
    assert heights[-1] == pytest.approx(read_history(made["lps"]).column("loss/total").loc[6])


@pytest.mark.parametrize("written", [3, 0])
def test_a_term_without_weight_is_switched_off_and_not_counted(open_page, tmp_path, written):
    run = make_run(tmp_path, "running", epochs=3, written=written, settings={"entropy_weight": 0.0})
    rewritten(run, without_entropy)
    app = open_page(tmp_path, run=run.id)
    words = words_of(app)
    assert "Switched off: entropy." in words and "−0.0" not in words and "With $w=0$" in captions(app)
    assert "**Entropy** :gray-badge[switched off]" in words
    if written:
        assert "In epoch 3 the 3 terms of LPS add up" in words
        (trace,) = charts_of(app)["explain_terms"]["data"]
        assert trace["y"] == [
            "Adaptive<br>margin",
            "Pseudo-label<br>contrastive loss",
            "Unsupervised<br>contrastive loss",
            "Total",
        ]
    else:
        assert "LPS minimizes the sum of 3 of its 4 terms" in words


def without_entropy(_, values: dict) -> dict:
    """What is recorded where the term has no weight."""
    if "loss/entropy" not in values:
        return values
    return values | {"loss/entropy": -0.0, "loss/total": values["loss/total"] - values["loss/entropy"]}


def test_the_formulas_of_a_run_follow_its_settings(open_page, tmp_path):
    own = {"contrast_variant": "out", "contrast_normalizer": "subset", "contrast_space": "features", "temperature": 0.7}
    own |= {"weak_views": "1", "use_margin": False, "pseudo_label_weight": 0.5, "unsupervised_weight": 2.0}
    run = make_run(tmp_path, epochs=2, settings=own)
    app = open_page(tmp_path, run=run.id)
    for term in objective.LPS_TERMS:
        shown = formula_of(term, distribution.default_settings() | own)
        assert shown.latex in formulas(app)
        assert f"{shown.numbers}  \n{shown.letters}" in captions(app)


def test_unreadable_settings_are_not_passed_off_as_those_of_the_run(open_page, made, tmp_path):
    run = make_run(tmp_path, epochs=2)
    (run.folder / "config.json").write_text("{")
    assert "the formulas below are those of LPS with default settings" in words_of(open_page(tmp_path, run=run.id))


@pytest.mark.parametrize("method", [name for name in catalog.method_names() if name != "lps"])
def test_the_objective_of_every_method_is_formulas_alone(method):
    text = catalog.method_info(method).sections["Objective"]
    shown = form.split_formulas(text)
    assert shown and "$" not in "".join(shown)
    assert "".join(shown) == re.sub(r",?\s*\\qquad\s*", "", " ".join(text.split()).replace("$$ $$", "")).strip("$")


@pytest.mark.parametrize(
    "terms, said",
    [
        ({"loss/entropy": -2.2, "loss/total": -1.7}, "The largest in absolute value is entropy with −2.20."),
        ({"loss/total": 0.5}, "In epoch 2 LPS has one term, adaptive margin, with **0.50**."),
    ],
)
def test_the_largest_term_may_be_negative_and_a_single_one_is_no_sum(open_page, tmp_path, terms, said):
    terms = {"loss/adaptive_margin": 0.5} | terms
    run = without(make_run(tmp_path, epochs=2), "loss/")
    rewritten(run, lambda _, values: values | (terms if "pi_hat" in values else {}))
    assert said in words_of(open_page(tmp_path, run=run.id))


def test_a_run_of_lps_without_its_margin(open_page, made):
    app = open_page(root_of(made), run=made["plain"].id)
    assert "This run had no margin" in words_of(app) and bars(charts_of(app)["explain_margins"]).any()


def test_a_run_of_another_method_with_a_class_distribution(open_page, made):
    app = open_page(root_of(made), run=made["orca"].id, epoch="1")
    assert "ORCA uses a different kind of margin" in words_of(app)
    recorded = read_history(made["orca"]).vector("pi_hat", 1)
    np.testing.assert_allclose(bars(charts_of(app)["explain_shares"]), recorded, rtol=1e-5)
    assert "The whole objective of ORCA" in [box.label for box in app.expander]
    lps = [formula_of(term, distribution.default_settings()).latex for term in objective.LPS_TERMS]
    assert not any(latex in formulas(app) for latex in lps) and r"m = C \min(\bar u, c)" in formulas(app)


def test_a_run_of_another_method_without_anything(open_page, made):
    app = open_page(root_of(made), run=made["gcd"].id)
    words = words_of(app)
    assert "GCD has no margin" in words and "GCD has no confidence threshold" in words
    assert "GCD estimates no class distribution" in words
    np.testing.assert_allclose(bars(charts_of(app)["explain_shares"]), distribution.mix_distribution(0.75, 0.1, 0.35))


def test_a_running_run_uses_its_own_settings_and_plan(open_page, made):
    app = open_page(root_of(made), run=made["running"].id)
    assert slider(app, "C,").value == 4.0
    novel = next(t for t in charts_of(app)["explain_thresholds"]["data"] if t["name"] == "Threshold for novel")
    assert numbers(novel["x"]).tolist() == list(range(1, 11))  # also the epochs that are to come
    assert "In epoch 4 the 4 terms" in words_of(app)


def test_a_run_without_an_epoch(open_page, made):
    app = open_page(root_of(made), run=made["queued"].id)
    assert "recorded no epoch yet" in words_of(app) and "explain_terms" not in charts_of(app)


def test_damaged_runs(open_page, tmp_path):
    damaged, unreadable = make_damaged(tmp_path), make_unreadable(tmp_path)
    app = open_page(tmp_path, run=damaged.id, epoch="7")
    assert "The share of correct predictions is unknown" in words_of(app)
    open_page(tmp_path, run=unreadable.id)


def test_a_hundred_classes(open_page, made):
    app = open_page(root_of(made), run=made["many"].id)
    figures = charts_of(app)
    seen, novel = (numbers(t["y"]) for t in figures["explain_shares"]["data"][:2])
    assert len(seen) == 40 and len(novel) == 60
    assert (np.diff(seen) <= 0).all() and (np.diff(novel) <= 0).all()
    probabilities = figures["explain_probabilities"]["data"][0]
    assert len(numbers(probabilities["y"])) == 11 and numbers(probabilities["y"]).sum() == pytest.approx(1)
    assert probabilities["text"][-1] == "90 others"


def test_classes_are_literal_text():
    belief = distribution.ClassEstimate(
        np.array([0.9, 0.1]), 1, ["<b>*x*</b>", "$y$"], distribution.default_settings(), "key"
    )
    text = margins.explain_sign(belief, np.array([2.0, 0.2]), 0.4)
    assert "<b>" not in text.replace("\\<b\\>", "") and "\\*x\\*" in text and "\\$y\\$" in text


def test_a_mixture():
    np.testing.assert_allclose(distribution.mix_distribution(0.6, 0, 0), [0.12] * 5 + [0.08] * 5)
    np.testing.assert_allclose(distribution.mix_distribution(0.6, 1, 1), [0.6, 0, 0, 0, 0, 0.4, 0, 0, 0, 0])
    halves = np.array([16, 8, 4, 2, 1]) / 31
    np.testing.assert_allclose(distribution.mix_distribution(0.5, 0.5, 0), [*(0.5 * halves), *[0.1] * 5])


@pytest.mark.parametrize("values, top", [([0.0], 1.0), ([0.12], 0.2), ([2.0], 2.0), ([2.1], 3.0), ([51], 60)])
def test_an_axis_ends_at_a_round_number(values, top):
    assert explain_charts.round_up(values) == pytest.approx(top)


def test_the_strongest_classes_and_the_rest():
    logits = np.arange(30.0)
    kept, rest = explain_charts.strongest(3, logits)
    assert kept.tolist() == [3, *range(21, 30)] and sorted([*kept, *rest]) == list(range(30))
    kept, rest = explain_charts.strongest(3, logits[:12])
    assert len(kept) == 12 and not len(rest)


def test_bars_of_who_passes_cover_everyone():
    groups = {"seen": Adoption(10, 6, 4, 1), "novel": Adoption(0, 0, 0, 0)}
    figure = explain_charts.passing(groups, LIGHT).figure()
    assert sum(trace.x[0] for trace in figure.data) == pytest.approx(1)
    assert sum(trace.x[1] for trace in figure.data) == 0


def test_the_sign_in_words():
    belief = distribution.ClassEstimate(np.array([0.7, 0.3]), 1, ["cat", "dog"], distribution.default_settings(), "key")
    text = margins.explain_sign(belief, np.array([2.0, 0.2]), 0.4)
    # e^-2 / (0.4 + 0.6 e^-2) = 0.28, e^-0.2 / (0.4 + 0.6 e^-0.2) = 0.92
    assert ":blue[**cat**] (seen) gets +2.00 and keeps 28\u00a0%" in text and "**held back**" in text
    assert ":orange[**dog**] (novel) gets +0.20 and keeps 92\u00a0%: it can **catch up**" in text
    assert "catch up" not in margins.explain_sign(belief, np.array([0.05, 0.04]), 0.4)


def test_what_the_terms_leave_of_the_total_is_shown(tmp_path):
    run = make_run(tmp_path, epochs=2)
    terms, total = objective.read_terms(read_history(run), 1)
    assert list(terms) == list(objective.LPS_TERMS) and sum(terms.values()) == pytest.approx(total)
    without(run, "loss/entropy")
    terms, total = objective.read_terms(read_history(run), 1)
    assert "rest" in terms and sum(terms.values()) == pytest.approx(total)
    assert objective.read_terms(read_history(run), 9) == ({}, None)


@pytest.mark.parametrize(
    "term, value, settings, is_off",
    [
        ("entropy", 0.0, {"entropy_weight": 0.0}, True),
        ("entropy", None, {"entropy_weight": 0}, True),
        ("entropy", -2.3, {"entropy_weight": 0.0}, False),  # a record that contradicts the settings is shown
        ("entropy", 0.0, {"entropy_weight": 1.0}, False),
        ("unsupervised_contrastive", 0.0, {"unsupervised_weight": 1.0}, False),  # every guess passes
        ("pairwise", 0.0, {"pairwise_weight": 0.0}, True),
        ("adaptive_margin", 0.0, {"margin_scale": 0.0}, False),  # without its margin it is cross-entropy
    ],
)
def test_which_terms_are_switched_off(term, value, settings, is_off):
    assert objective.switched_off({term: value}, settings) == [term] * is_off


def test_the_formula_has_the_numbers():
    text = margins.divergence_formula(np.array([0.75, 0.25]), np.array([0.5, 0.5]), margin_math.PRIOR_FIRST, 0.1438)
    assert r"0.50\log\tfrac{0.50}{0.75}" in text and r"0.50\log\tfrac{0.50}{0.25}" in text and "=0.144" in text
    assert margins.format_share(2e-5) == r"2\cdot10^{-5}" and margins.format_share(0.0123) == "0.012"


def test_sliders_set_the_true_shares_of_a_right_model(open_page, tmp_path):
    app = open_page(tmp_path, **{"from": "unequal"})
    margins = {}
    for seen in (60, 90):
        slider(app, "All seen").set_value(seen).run()
        truth = distribution.mix_distribution(seen / 100, 0.3, 0.3)
        margins[seen] = bars(charts_of(app)["explain_margins"])
        np.testing.assert_allclose(bars(charts_of(app)["explain_shares"]), truth)
        np.testing.assert_allclose(margins[seen], margin_math.margins(truth, margin_math.kl_from_prior(truth), 10))
        assert f"the largest has {100 * truth.max():.0f} % of the images" in words_of(app)
    assert margins[90].max() > margins[60].max() > 0
    assert "Equal shares are a wrong target" in words_of(app)
    app = open_page(tmp_path, **{"from": "unequal", "prior": "data", "seen": "90"})
    assert "Equal shares are a wrong target" not in words_of(app) and "**0.000**" in words_of(app)
    np.testing.assert_allclose(bars(charts_of(app)["explain_margins"]), 0, atol=1e-9)
    app = open_page(tmp_path, **{"from": "unequal", "seen": "50", "seen_uneven": "0", "novel_uneven": "0"})
    assert "Equal shares are a wrong target" not in words_of(app) and "Every margin is 0" in words_of(app)
