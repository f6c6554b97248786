"""
Same or different: ROC curve and thresholds
===========================================

Pairs of letters that were never seen in training. The threshold comes out of the fit; other criteria move it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_curve

from advmetric import BalancedPairs, Euclidean, PairAML, load_dataset

data = load_dataset("letters")
X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
seen = data.y < 16
train = BalancedPairs(4000).sample(X[seen], data.y[seen], random_state=0)
test = BalancedPairs(4000).sample(X[~seen], data.y[~seen], random_state=1)

figure, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
for learner in (Euclidean(), PairAML()):
    learner.fit(train, train.y)
    false, true, _ = roc_curve(test.y, -learner.pair_distance(test))
    ax.plot(false, true, label=f"{type(learner).__name__}, AUC {learner.score(test, test.y):.3f}")
for strategy, options in (("accuracy", {}), ("max_tpr", {"min_rate": 0.95}), ("f_beta", {"beta": 2.0})):
    learner.calibrate_threshold(train, train.y, strategy, **options)
    same = learner.predict(test) == 1
    place = np.mean(same[test.y == -1]), np.mean(same[test.y == 1])
    ax.plot(*place, "o", label=f"threshold by {strategy}")
ax.set(xlabel="different pairs called same", ylabel="same pairs called same")
ax.legend(frameon=False)
