"""
What the adversary does to a digit
==================================

Adversarial pairs of images, drawn as pixels: each pair keeps its midpoint, while the difference changes where the
metric looks. Top: real pairs. Bottom: what the two-sided adversary makes of them.
"""

import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from advmetric import AML, BalancedPairs, load_dataset

data = load_dataset("mnist-4000")
pca = PCA(40, whiten=True, random_state=0).fit(data.X)
X = pca.transform(data.X)
learner = AML(adversary="expanding", alpha=1.0, beta=2.0, t=0.25).fit(X, data.y)
pairs = BalancedPairs(6).sample(X, data.y, random_state=3)
real = X[pairs.indices]
moved = learner.adversarial_pairs(pairs, pairs.labels)

figure, axes = plt.subplots(2, 12, figsize=(12, 2.6), layout="constrained")
for row, ends in enumerate((real, moved)):
    images = pca.inverse_transform(ends.reshape(12, -1)).reshape(12, 28, 28)
    for column, image in enumerate(images):
        axes[row, column].imshow(image, cmap="gray_r", vmin=0, vmax=255)
        axes[row, column].axis("off")
for pair, label in enumerate(pairs.labels):
    axes[0, 2 * pair].set_title("same" if label == 1 else "different", loc="left", fontsize=9)
