r"""LPS's functions of a class distribution, in NumPy: KL both ways, margins, their effect on a softmax, thresholds.

The same quantities as in training (`lps.methods.lps`, `lps.methods.parts.losses`, `lps.methods.parts.pseudo_labels`),
for pages, which do not import torch; `tests/scores/test_margin_math.py` checks that they are equal. Float64; k
classes, shares of a distribution add up to 1.
"""

import numpy as np

TINY = 1e-8  # least value of an estimated share inside a logarithm, as in training
MIN_SHARE = 0.1  # of an equal share: least value of a prior's share in the margin, as in training
PRIOR_FIRST, ESTIMATE_FIRST = "uniform_to_est", "est_to_uniform"  # values of the setting kl_direction


def uniform(classes: int) -> np.ndarray:
    """Return the prior of LPS: equal shares, (classes,)."""
    return np.full(classes, 1 / classes)


def kl_from_prior(pi_hat: np.ndarray, prior: np.ndarray | None = None) -> float:
    """Return KL(prior || pi_hat) = sum_k prior_k log(prior_k / pi_hat_k); large if a class is predicted too rarely.

    pi_hat, prior: (k,); prior None is the uniform one. Classes with a prior share of 0 do not count.
    """
    return _divergence(_prior(pi_hat, prior), pi_hat)


def kl_from_estimate(pi_hat: np.ndarray, prior: np.ndarray | None = None) -> float:
    """Return KL(pi_hat || prior) = sum_k pi_hat_k log(pi_hat_k / prior_k); at most log k for the uniform prior."""
    return _divergence(pi_hat, _prior(pi_hat, prior))


def kl(pi_hat: np.ndarray, direction: str = PRIOR_FIRST, prior: np.ndarray | None = None) -> float:
    """Return the divergence of the margin: PRIOR_FIRST (the authors' code) or ESTIMATE_FIRST (their text)."""
    measure = {PRIOR_FIRST: kl_from_prior, ESTIMATE_FIRST: kl_from_estimate}[direction]
    return measure(pi_hat, prior)


def margins(pi_hat: np.ndarray, divergence: float, scale: float, prior: np.ndarray | None = None) -> np.ndarray:
    """Return delta_k = C * KL * r_k / max_j r_j, (k,), which training adds to the logit of a target.

    r: `relative_shares`. The paper writes Delta = -delta and subtracts it. divergence: the KL; scale: C.
    """
    relative = relative_shares(pi_hat, prior)
    return scale * divergence * relative / max(relative.max(), TINY)


def relative_shares(pi_hat: np.ndarray, prior: np.ndarray | None = None) -> np.ndarray:
    """Return pi_hat_k / prior_k, (k,): how much too often a class is predicted; pi_hat itself for the uniform prior.

    `lps.methods.lps.LPS.margins` has the derivation, and why small prior shares count as `MIN_SHARE` of an equal one.
    """
    pi_hat = np.asarray(pi_hat, np.float64)
    return pi_hat if prior is None else pi_hat / np.maximum(prior, MIN_SHARE / len(pi_hat))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities (k,) of logits (k,)."""
    powers = np.exp(logits - np.max(logits))
    return powers / powers.sum()


def probabilities(logits: np.ndarray, target: int, margin: float = 0.0) -> np.ndarray:
    """Return the softmax (k,) in the loss when `margin` is added to the logit of the target."""
    shifted = np.array(logits, np.float64)
    shifted[target] += margin
    return softmax(shifted)


def cross_entropy(logits: np.ndarray, target: int, margin: float = 0.0) -> float:
    """Return l_AM = -log of the target's probability with its margin; a margin of 0 is plain cross-entropy."""
    shifted = np.array(logits, np.float64)
    shifted[target] += margin
    top = shifted.max()
    return float(top + np.log(np.exp(shifted - top).sum()) - shifted[target])


def cross_entropy_gradient(logits: np.ndarray, target: int, margin: float = 0.0) -> np.ndarray:
    """Return d l_AM / d logits (k,): the probabilities with the margin, minus 1 at the target. Adds up to 0."""
    gradient = probabilities(logits, target, margin)
    gradient[target] -= 1
    return gradient


def pull_left(probability, margin):
    """Return the share of the gradient on a target's logit that remains with a margin: (1 - p') / (1 - p), elementwise.

    probability: of the target without the margin, in (0, 1). With odds q = (1 - p) / p the target's probability
    becomes p' = 1 / (1 + q exp(-margin)).
    """
    shrunk = np.exp(-np.asarray(margin, np.float64))
    return shrunk / (probability + (1 - probability) * shrunk)


def example_logits(pi_hat: np.ndarray, target: int, probability: float) -> np.ndarray:
    """Return logits (k,) of an image that gives the target `probability`, and divides the rest as pi_hat does."""
    other_shares = np.maximum(np.asarray(pi_hat, np.float64), TINY)
    other_shares[target] = 0
    shares = (1 - probability) * other_shares / other_shares.sum()
    shares[target] = probability
    return np.log(shares)


def threshold_novel(done: float, start: float = 0.4, end: float = 0.8) -> float:
    """Return lambda = start + (end - start) t/T: the confidence threshold of novel labels at a share t/T = `done`."""
    return start + (end - start) * done


def done_in_epoch(epoch: int, epochs: int, clock: str = "epoch") -> float:
    """Return the share of a run for the thresholds of an epoch (from 1): at its start, or averaged over its steps."""
    return (epoch - 1 + (0.5 if clock == "iteration" else 0)) / epochs


def _prior(pi_hat: np.ndarray, prior: np.ndarray | None) -> np.ndarray:
    return uniform(len(pi_hat)) if prior is None else prior


def _divergence(first: np.ndarray, second: np.ndarray) -> float:
    """Return sum first log(first / second), both clamped inside the logarithm."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return float((first * (np.log(np.maximum(first, TINY)) - np.log(np.maximum(second, TINY)))).sum())
