"""
Retrieval: neighbours among many points
=======================================

An index of 20 000 letters under a learned metric: precision among the nearest neighbours, against the Euclidean
distance. With faiss installed the same code searches millions.
"""

import matplotlib.pyplot as plt
import numpy as np

from advmetric import GMML, Euclidean, MetricIndex, load_dataset

data = load_dataset("letters")
X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
queries, gallery = np.arange(0, 20000, 20), np.setdiff1d(np.arange(20000), np.arange(0, 20000, 20))
ks = (1, 2, 5, 10, 20)
figure, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
for learner in (Euclidean(), GMML(t=0.1)):
    index = MetricIndex(learner.fit(X[gallery], data.y[gallery])).add(X[gallery])
    _, found = index.query(X[queries], k=max(ks))
    right = data.y[gallery][found] == data.y[queries][:, None]
    ax.plot(ks, [right[:, :k].mean() for k in ks], marker="o", label=type(learner).__name__)
ax.set(xlabel="neighbours", ylabel="share of the same letter")
ax.legend(frameon=False)
