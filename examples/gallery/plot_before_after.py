"""
Before and after: a plane learned for two dimensions
====================================================

Principal components show where points vary most. A metric learned with ``n_components=2`` shows where classes differ.
"""

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric import AML, load_dataset

data = load_dataset("image-segment")
X, y = StandardScaler().fit_transform(data.X), data.y
train, test = slice(0, None, 2), slice(1, None, 2)

figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for ax, (name, learner) in zip(axes, {"PCA": PCA(2), "AML": AML(n_components=2, t=0.1)}.items(), strict=True):
    Z = learner.fit(X[train], y[train]).transform(X)
    error = 1 - KNeighborsClassifier(5).fit(Z[train], y[train]).score(Z[test], y[test])
    ax.scatter(*Z[test].T, c=y[test], s=8, cmap="tab10")
    ax.set(title=f"{name}: 5-NN error {error:.2f} in the plane", xlabel="first direction", ylabel="second direction")
