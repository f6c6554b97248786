"""A table with class labels: better neighbours by learning the distance first.

AMLCV() in place of NeighborAML() chooses the loss and its parameters by cross-validation (a minute here).

Run: python examples/labels.py
"""

from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from advmetric import AML, NeighborAML, load_dataset

X, y = load_dataset("vehicle", missing="drop").X, load_dataset("vehicle").y

for name, learner in {
    "Euclidean": "passthrough",
    "AML, the paper's model": AML(),
    "NeighborAML": NeighborAML(),
}.items():
    model = make_pipeline(StandardScaler(), learner, KNeighborsClassifier(5))
    accuracy = cross_val_score(model, X, y, cv=5)
    print(f"{name:22s} 5-NN error {1 - accuracy.mean():.3f} ± {accuracy.std():.3f}")
