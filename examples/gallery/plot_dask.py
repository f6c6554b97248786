"""
A metric of rows on many workers
================================

A Dask array goes straight into ``fit``: each worker reduces its chunks to counts, means and d×d matrices, which add up
to the metric of one machine. Here the workers are threads.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from advmetric import AML
from advmetric.plots import plot_metric

rng = np.random.default_rng(0)
y = rng.integers(5, size=200_000)
X = rng.normal(size=(200_000, 12)) @ rng.normal(size=(12, 12)) + 2 * np.eye(5, 12)[y]

gaps, sizes = [], (2_000, 10_000, 50_000, 200_000)
whole = AML(t=0.1).fit(X, y).get_mahalanobis_matrix()
for rows in sizes:
    chunked = AML(t=0.1).fit(da.from_array(X, chunks=(rows, 12)), da.from_array(y, chunks=rows))
    gaps.append(np.abs(chunked.get_mahalanobis_matrix() - whole).max() / np.abs(whole).max())

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
plot_metric(whole, ax=axes[0], title="M")
axes[1].loglog(sizes, np.maximum(gaps, 1e-17), marker="o")
axes[1].set(xlabel="rows in a chunk", ylabel="relative difference from one fit", ylim=(1e-17, 1e-8))
