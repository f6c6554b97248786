"""
What alpha and beta do: the adversary flattens the spectrum
===========================================================

Eigenvalues of the paper's metric on the vehicle data. The larger alpha, the more the largest eigenvalues are shrunk;
beta sets how large an eigenvalue must be to feel it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from advmetric import AML, load_dataset

data = load_dataset("vehicle")
X = StandardScaler().fit_transform(data.X)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for alpha in (0.0, 1.0, 10.0, 100.0):
    M = AML(alpha=alpha, beta=1.0).fit(X, data.y).get_mahalanobis_matrix()
    axes[0].semilogy(np.linalg.eigvalsh(M)[::-1], marker="o", markersize=3, label=f"alpha = {alpha:g}")
for beta in (0.001, 0.01, 0.1, 1.0):
    M = AML(alpha=100.0, beta=beta).fit(X, data.y).get_mahalanobis_matrix()
    axes[1].semilogy(np.linalg.eigvalsh(M)[::-1], marker="o", markersize=3, label=f"beta = {beta:g}")
for ax, title in zip(axes, ("beta = 1", "alpha = 100"), strict=True):
    ax.set(title=title, xlabel="direction", ylabel="eigenvalue of M")
    ax.legend(frameon=False)
