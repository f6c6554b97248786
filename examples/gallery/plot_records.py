"""
Record matching: the same customer, typed twice?
================================================

Two rows of a customer table are compared field by field. The metric learns how much a difference in each field counts,
and gives a probability that both rows are one person.
"""

import random
from difflib import SequenceMatcher

import matplotlib.pyplot as plt
import numpy as np

from advmetric import Euclidean, PairAML

rng, fields = random.Random(0), ("name", "street", "town", "born")
values = {
    "name": [f"{a} {b}" for a in ("Anna", "Ben", "Clara", "David") for b in ("Abel", "Costa", "Evans", "Novak")],
    "street": [f"{s} {i}" for s in ("Oak Lane", "Mill Road", "High Street", "Lake Drive") for i in range(1, 60)],
    "town": ["Bern", "Lyon", "Graz", "Turin", "Ghent", "Malmo", "Porto", "Cork"],
    "born": [str(year) for year in range(1940, 2006)],
}


def new(**known):
    return {field: known.get(field, rng.choice(values[field])) for field in fields}


def typed_again(row):
    """The same person: typing errors, and a quarter have moved."""
    again = new(name=row["name"], born=row["born"]) if rng.random() < 0.25 else dict(row)
    for field in fields:
        if rng.random() < 0.4:
            place = rng.randrange(len(again[field]))
            again[field] = again[field][:place] + rng.choice("aeinrst14") + again[field][place + 1 :]
    return again


def differences(n):
    """n repeats, n strangers who share the name, the town or the year; one number for each field."""
    rows = [new() for _ in range(n)]
    pairs = [(row, typed_again(row)) for row in rows]
    pairs += [(row, new(**{f: row[f] for f in (("name", "town", "born")[i % 3],)})) for i, row in enumerate(rows)]
    gaps = [[1.0 - SequenceMatcher(None, a[field], b[field]).ratio() for field in fields] for a, b in pairs]
    return np.stack([np.zeros((2 * n, 4)), np.array(gaps)], axis=1), np.repeat([1, -1], n)


# %%
# A pair whose difference is the vector of dissimilarities is the vector and the origin.

train, y_train = differences(500)
test, y_test = differences(500)
learner = PairAML().fit(train, y_train)
areas = {"Euclidean": Euclidean().fit(train, y_train).score(test, y_test), "PairAML": learner.score(test, y_test)}
weights = np.diag(learner.get_mahalanobis_matrix())

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
axes[0].bar(fields, weights / weights.mean())
axes[0].set(title="what each field counts", ylabel="weight (Euclidean: 1)")
for kind, name in ((1, "same person"), (-1, "strangers")):
    axes[1].hist(learner.predict_proba(test)[y_test == kind, 1], np.linspace(0, 1, 21), alpha=0.6, label=name)
title = ", ".join(f"{name} {area:.3f}" for name, area in areas.items())
axes[1].set(title=f"ROC AUC: {title}", xlabel="probability of same", ylabel="new pairs")
axes[1].legend(frameon=False)
