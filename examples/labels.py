"""A table with class labels: better neighbours by learning the distance first.

Run: python examples/labels.py
"""

from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from advmetric import AML, AMLCV, load_dataset

X, y = load_dataset("vehicle", missing="drop").X, load_dataset("vehicle").y

for name, learner in {
    "Euclidean": "passthrough",
    "AML, defaults": AML(),
    "AML, tuned inside each fold": AMLCV(),
}.items():
    model = make_pipeline(StandardScaler(), learner, KNeighborsClassifier(5))
    accuracy = cross_val_score(model, X, y, cv=5)
    print(f"{name:28s} 5-NN error {1 - accuracy.mean():.3f} ± {accuracy.std():.3f}")
