"""
Triplets: "a is nearer to b than to c"
======================================

Answers of people who compare things, some of them wrong. The learned metric finds the two features that they looked at.
"""

import matplotlib.pyplot as plt
import numpy as np

from advmetric import PairAML

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 8))
weights = np.array([3.0, 1.5, 0, 0, 0, 0, 0, 0])  # what the answers look at
triplets = rng.integers(300, size=(2000, 3))
a, b, c = (X[column] * weights for column in triplets.T)
nearer = np.linalg.norm(a - b, axis=1) < np.linalg.norm(a - c, axis=1)
answers = np.where(nearer, 1, -1) * np.where(rng.random(2000) < 0.1, -1, 1)  # one in ten is wrong
learner = PairAML(preprocessor=X).fit(triplets[:1000], answers[:1000])
M = learner.get_mahalanobis_matrix()

figure, ax = plt.subplots(figsize=(4.4, 3.8), layout="constrained")
image = ax.imshow(M, cmap="viridis")
figure.colorbar(image)
right = learner.score(triplets[1000:], np.where(nearer, 1, -1)[1000:])
ax.set(title=f"learned M; {right:.2f} of new triplets in order", xlabel="feature", ylabel="feature")
