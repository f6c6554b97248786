"""Record matching: are these two rows the same customer? From text to a probability.

A made-up customer table with typing errors, moves and missing letters. Each pair of rows becomes a vector of
dissimilarities, one for each field; AML learns how much each field counts and how they go together.
Run: python examples/records.py
"""

import random
from difflib import SequenceMatcher

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import StratifiedKFold

from advmetric import AMLCV, Euclidean

FIRST = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Henry", "Ida", "Jonas", "Liam", "Maria", "Noah")
LAST = ("Abel", "Bauer", "Costa", "Dubois", "Evans", "Fischer", "Garcia", "Huber", "Jansen", "Keller", "Lopez", "Novak")
STREET = ("Oak Lane", "Mill Road", "Station Street", "High Street", "Church Road", "Garden Way", "Lake Drive")
TOWN = ("Bern", "Lyon", "Graz", "Turin", "Ghent", "Malmo", "Porto", "Cork")
FIELDS = ("name", "street", "town", "born")
rng = random.Random(0)


def customer():
    """A new row of the table."""
    return {
        "name": f"{rng.choice(FIRST)} {rng.choice(LAST)}",
        "street": f"{rng.choice(STREET)} {rng.randint(1, 80)}",
        "town": rng.choice(TOWN),
        "born": str(rng.randint(1940, 2005)),
    }


def typed_again(row):
    """The same customer, entered a second time: typing errors, sometimes another address."""
    again = dict(row)
    if rng.random() < 0.25:
        again |= {name: value for name, value in customer().items() if name in ("street", "town")}
    for field in FIELDS:
        if rng.random() < 0.4:
            place = rng.randrange(len(again[field]))
            letter = rng.choice("aeinrst" if field != "born" else "0123456789")
            again[field] = again[field][:place] + letter + again[field][place + 1 :]
    return again


def dissimilarity(a, b):
    """1 - similarity of each field: 0 for equal text."""
    return [1.0 - SequenceMatcher(None, a[field], b[field]).ratio() for field in FIELDS]


def pairs_of(n):
    """(2n, 2, 4) pairs and their labels: the difference of a pair is its vector of dissimilarities."""
    rows = [customer() for _ in range(n)]
    same = [dissimilarity(row, typed_again(row)) for row in rows]
    # The hard strangers are those who share a name or a town.
    others = [
        customer() | ({"name": row["name"]} if i % 3 == 0 else {"town": row["town"]}) for i, row in enumerate(rows)
    ]
    different = [dissimilarity(row, other) for row, other in zip(rows, others, strict=True)]
    ends = np.array(same + different)
    return np.stack([np.zeros_like(ends), ends], axis=1), np.repeat([1, -1], n)


train, y_train = pairs_of(600)
test, y_test = pairs_of(600)
search = AMLCV(n_neighbors=5).fit(train, y_train)
print(f"ROC AUC on new customers: Euclidean {Euclidean().fit(train, y_train).score(test, y_test):.3f}, ", end="")
print(f"AML {search.score(test, y_test):.3f}")

# A decision that is wrong about strangers at most once in a hundred times, as seen in training.
search.calibrate_threshold(train, y_train, strategy="max_tpr", min_rate=0.99)
says_same = search.predict(test) == 1
print(
    f"found {np.mean(says_same[y_test == 1]):.2f} of the repeats, {np.mean(says_same[y_test == -1]):.3f} false alarms"
)

# A probability instead of a decision.
model = CalibratedClassifierCV(clone(search.best_estimator_), cv=StratifiedKFold(5)).fit(train, y_train)
probability = model.predict_proba(test)[:, 1]
print(f"Brier score {brier_score_loss(y_test == 1, probability):.3f} (a coin: 0.25)")

a = {"name": "Clara Novak", "street": "Mill Road 7", "town": "Ghent", "born": "1981"}
b = {"name": "Klara Novak", "street": "Lake Drive 12", "town": "Porto", "born": "1981"}
pair = np.stack([np.zeros(4), dissimilarity(a, b)])[None]
print(f"Clara in Ghent and Klara in Porto are the same with probability {model.predict_proba(pair)[0, 1]:.2f}")
