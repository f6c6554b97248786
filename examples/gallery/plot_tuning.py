"""
Which loss? What AMLCV sees
===========================

Cross-validated accuracy of all candidates, by loss. The best one gives way to a simpler loss if its lead is within one
standard error.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from advmetric import AMLCV, load_dataset

data = load_dataset("vehicle")
X = StandardScaler().fit_transform(data.X)
search = AMLCV(cv=3, random_state=0).fit(X[::2], data.y[::2])
results = search.cv_results_
losses = list(dict.fromkeys(results["param_loss"]))

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for row, loss in enumerate(losses):
    chosen = results["param_loss"] == loss
    ax.scatter(results["mean_test_score"][chosen], np.full(chosen.sum(), row), s=14, alpha=0.6)
ax.scatter(search.best_score_, losses.index(search.best_loss_), s=120, facecolors="none", edgecolors="black")
ax.set(yticks=range(len(losses)), yticklabels=losses, xlabel="5-NN accuracy in cross-validation")
