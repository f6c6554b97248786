"""Settings that AMLCV tries by default.

Chosen on training parts of vehicle, german-credit-numeric, isolet, letters, mnist-4000 and letters-unseen (and, in an
earlier version, on further splits with seeds 1001 and up of vehicle, breast-cancer and german-credit-numeric), and on
sonar, heart, pima, bands, ring, satimage and vowel of the KEEL repository (pairs of many features: on training parts of
lfw and pubfig; points of many features: on training parts of mnist-4000 and isolet with all features and on images of
20 people of pubfig): few settings such that on each set one is near the best. Settings without which the choice stayed
as good on 18 KEEL sets (70/30 splits, seed 100) were dropped. That of the radius loss was chosen on 40 sets
of KEEL (splits 0 to 9 of benchmarks/further_sets.py) and on splits of training parts of the sets of Table 1 (trials 0
to 3); with it, the margin loss in all dimensions, a fourth setting of softmax and a second one of pairs add nothing.
"""

from __future__ import annotations

from advmetric.learners.tuning import Params

__all__ = ["GEOMETRIC", "low_ranks", "settings_of"]


def _setting(t: float, gamma: float, alpha: float, beta: float = 10.0) -> Params:
    return {"t": t, "gamma": gamma, "alpha": alpha, "beta": beta}


GEOMETRIC: tuple[Params, ...] = (
    {"beta": 1.0, "alpha": 0.0},
    {"beta": 0.1, "alpha": 10.0},
    {"beta": 1.0, "alpha": 10.0},
)
"""Of the paper's model, for each t; alpha = 0 is GMML."""

_SETTINGS: dict[tuple[str, str], list[Params]] = {
    ("points", "margin"): [
        _setting(0.1, 0.1, 1.0),
        _setting(0.1, 0.01, 1.0),
        _setting(0.25, 0.1, 0.0),
        _setting(0.5, 0.1, 0.0),
    ],
    ("points", "softmax"): [
        _setting(0.25, 0.1, 1.0, 3.0),
        _setting(0.25, 0.01, 1.0),
        _setting(0.5, 0.1, 0.0),
    ],
    ("points", "radius"): [_setting(0.15, 0.01, 1.0)],
    ("points", "pairs"): [_setting(0.25, 0.1, 0.0, 30.0)],
    ("pairs", "pairs"): [
        _setting(t, gamma, alpha, beta)
        for t in (0.1, 0.5)
        for gamma in (1.0, 0.1, 0.01)
        for alpha, beta in ((0.0, 30.0), (1.0, 30.0), (1.0, 10.0), (1.0, 3.0))
    ],
}
"""Of the discriminative losses, by supervision and loss; those of the margin loss where it is asked for."""


def settings_of(kind: str, loss: str, wide: bool) -> list[Params]:
    """Return the settings of a discriminative loss, by supervision and by whether there are many features.

    On pairs of many features, the weakest regularisation overfits and takes most iterations. (Points of many features
    are reduced to principal components.)
    """
    settings = _SETTINGS[kind, loss]
    return [params for params in settings if params["gamma"] >= 0.1] if wide and kind == "pairs" else settings


def low_ranks(n_classes: int, d: int, wide: bool) -> list[Params]:
    """Return settings of the margin loss in few of d dimensions: about as many as tell the classes apart, and five.

    Features that are noise to the neighbours cost most in k-NN; in few dimensions they are gone. With many features,
    these dimensions are found with more regularisation, and 60 are tried, too: directions that tell classes apart need
    not be principal components.
    """
    few, more = max(2, n_classes - 1), max(5, n_classes - 1)
    strength = {"reg": 0.1} if wide else {}
    ranks = sorted({more, 60} if wide else {few, more})
    return [{**_setting(0.1, 0.1, 1.0), **strength, "n_components": r} for r in ranks if r < d]
