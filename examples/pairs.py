"""Ground truth that is pairs, same or different: a distance, a decision and a probability.

Trained on pairs of some letters, tested on pairs of letters never seen in training.
Run: python examples/pairs.py
"""

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold

from advmetric import AML, AMLCV, BalancedPairs, Euclidean, load_dataset

data = load_dataset("letters")
X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
seen = data.y < 16
train = BalancedPairs(4000).sample(X[seen], data.y[seen], random_state=0)
test = BalancedPairs(4000).sample(X[~seen], data.y[~seen], random_state=1)


def formed(pairs):
    """(N, 2, d) array of a set of pairs: what most people's data looks like."""
    return np.stack([pairs.X[pairs.left], pairs.X[pairs.right]], axis=1)


euclidean = Euclidean().fit(formed(train), train.y)
search = AMLCV(n_components=[None, 8], ts=[0.1, 0.25, 0.5]).fit(formed(train), train.y)
for name, model in {"Euclidean": euclidean, "AML": search}.items():
    right = np.mean(model.predict(formed(test)) == test.y)
    print(f"{name:10s} ROC AUC {model.score(formed(test), test.y):.3f}, accuracy {right:.3f} on unseen letters")

# Probabilities: scikit-learn's calibration works on pairs; fold over pairs with StratifiedKFold.
best = AML(**search.best_params_)
calibrated = CalibratedClassifierCV(best, cv=StratifiedKFold(5)).fit(formed(train), train.y)
print("probability of 'same' for five test pairs:", calibrated.predict_proba(formed(test)[:5])[:, 1].round(2))

search.get_metric().save("letters.metric.npz")  # no pickle; read it back with advmetric.Mahalanobis.load
