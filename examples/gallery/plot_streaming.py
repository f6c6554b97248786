"""
Learning batch by batch
=======================

The metric after each batch is that of all rows so far: any split into batches gives the metric of one fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric import AML, load_dataset

data = load_dataset("letters")
X, y = StandardScaler().fit_transform(data.X), data.y
order = np.random.default_rng(0).permutation(len(X))
test, rows = order[:2000], order[2000:]
learner, seen, errors = AML(t=0.1), [], []
for batch in np.array_split(rows[:6000], 12):
    learner.partial_fit(X[batch], y[batch])
    seen.append(batch)
    Z, known = learner.transform(X), np.concatenate(seen)
    errors.append(1 - KNeighborsClassifier(5).fit(Z[known], y[known]).score(Z[test], y[test]))
whole = AML(t=0.1).fit(X[rows[:6000]], y[rows[:6000]])
gap = np.abs(whole.get_mahalanobis_matrix() - learner.get_mahalanobis_matrix()).max()

figure, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
ax.plot(500 * np.arange(1, 13), errors, marker="o")
ax.set(xlabel="rows so far", ylabel="5-NN error", title=f"largest difference from one fit: {gap:.0e}")
