"""
Text: a metric on sparse features
=================================

Sparse word counts go in as they are. With fewer rows than features, AML learns in the span of the data.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from advmetric import AML

rng = np.random.default_rng(0)
words = {
    "cooking": "oven butter flour sugar bake dough salt pepper soup roast",
    "sailing": "wind sail mast rope anchor harbour tide wave deck boat",
    "gardening": "seed soil prune rose compost water leaf spade hedge lawn",
}
common = ["the", "and", "then", "with", "very", "good", "day", "time", "people", "make", "take", "new"]
texts, labels = [], []
for label, vocabulary in words.items():
    for _ in range(60):
        chosen = [*rng.choice(vocabulary.split(), 3), *rng.choice(common, 12)]
        texts.append(" ".join(chosen))
        labels.append(label)
y = np.unique(labels, return_inverse=True)[1]
X = TfidfVectorizer().fit_transform(texts)
Z = AML(n_components=2).fit(X[::2], y[::2]).transform(X)

figure, ax = plt.subplots(figsize=(4.6, 4), layout="constrained")
for code, label in enumerate(np.unique(labels)):
    ax.scatter(*Z[1::2][y[1::2] == code].T, s=12, label=label)
ax.set(xlabel="first direction", ylabel="second direction", title="texts that were not learned from")
ax.legend(frameon=False)
