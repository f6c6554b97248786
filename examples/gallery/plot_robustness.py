"""
Accuracy against robustness
===========================

Every test point may move by eps in the worst direction. Without the adversary the metric is accurate and fragile; alpha
and beta, or the radius of the loss of that name, trade one for the other.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from advmetric import Euclidean, NeighborAML, RandomPairs, load_dataset
from advmetric.evaluation.robustness import robustness_curve

data = load_dataset("vehicle")
X_train, X_test, y_train, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=0, stratify=data.y)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
learners = {
    "Euclidean": Euclidean(),
    "margin, no adversary": NeighborAML(loss="margin", alpha=0.0, gamma=0.01),
    "margin, alpha = 1, beta = 10": NeighborAML(loss="margin", alpha=1.0, beta=10.0, gamma=0.1),
    "softmax, t = 0.25, beta = 1": NeighborAML(t=0.25, beta=1.0),
    "radius = 1, t = 0.25": NeighborAML(loss="radius", radius=1.0, t=0.25, gamma=0.01),
}
epsilons = (0.0, 0.05, 0.1, 0.2, 0.3)
pairs = RandomPairs(500).sample(X_test, y_test, 0)
differences = X_test[pairs.left] - X_test[pairs.right]
figure, ax = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
for name, learner in learners.items():
    L = learner.fit(X_train, y_train).components_
    curve = robustness_curve(L, X_train, y_train, X_test, y_test, epsilons, differences, pairs.labels)
    ax.plot(epsilons, curve.attacked_error, marker="o", label=name)
ax.set(xlabel="eps, in standard deviations", ylabel="5-NN error under attack")
ax.legend(frameon=False)
