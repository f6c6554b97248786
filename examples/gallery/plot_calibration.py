"""
Are the probabilities right?
============================

Predicted probability of "same" against the share of same pairs, on pairs of unseen letters: as fitted, and after
calibration on other pairs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve

from advmetric import BalancedPairs, PairAML, load_dataset

data = load_dataset("letters")
X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
groups = [np.isin(data.y, letters) for letters in (range(12), range(12, 19), range(19, 26))]
train, held_out, test = (
    BalancedPairs(4000).sample(X[rows], data.y[rows], random_state=seed) for seed, rows in enumerate(groups)
)
learner = PairAML().fit(train, train.y)
distances, similar = learner.pair_distance(test), test.y == 1
curves = {"as fitted": learner.predict_proba(test)[:, 1]}
metric = learner.calibrate_threshold(held_out, held_out.y).get_metric()
curves["calibrated on other letters"] = metric.probability(distances)

figure, ax = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
ax.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
for name, probability in curves.items():
    share, mean = calibration_curve(similar, probability, n_bins=10)
    ax.plot(mean, share, marker="o", label=f"{name}, Brier {np.mean((probability - similar) ** 2):.3f}")
ax.set(xlabel="predicted probability of same", ylabel="share of same pairs")
ax.legend(frameon=False)
