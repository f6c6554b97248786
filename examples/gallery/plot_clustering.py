"""
Clustering under a learned distance
===================================

A metric learned on some classes of letters helps to cluster classes that it never saw.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from advmetric import GMML, NeighborAML, load_dataset

data = load_dataset("letters")
X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
rng = np.random.default_rng(0)
known = rng.permutation(np.flatnonzero(data.y < 18))[:3000]
new = rng.permutation(np.flatnonzero(data.y >= 18))[:1500]

scores = {"Euclidean": X[new]}
for learner in (GMML(t=0.25), NeighborAML(random_state=0)):
    scores[type(learner).__name__] = learner.fit(X[known], data.y[known]).transform(X[new])
scores = {
    name: adjusted_rand_score(data.y[new], KMeans(8, n_init=5, random_state=0).fit_predict(Z))
    for name, Z in scores.items()
}

figure, ax = plt.subplots(figsize=(5, 2.4), layout="constrained")
ax.barh(list(scores), list(scores.values()))
ax.set(xlabel="adjusted Rand index of k-means on 8 unseen letters")
