"""A linear metric on the features of a frozen network: seconds, whatever the network, and nothing is trained but L.

The network is trained on digits 0 to 4 of MNIST and frozen. The metric is learned on its features of half of
the digits 5 to 9, as one would on labels of one's own, and tested on the other half.
Run: python examples/frozen_features.py
"""

import time

import numpy as np
import torch

from advmetric import AML, GMML, PairAML, load_dataset
from advmetric.deep import DeepAML
from advmetric.deep.evaluation import labelled_auc

data = load_dataset("mnist-4000")
images, y = data.X[::2].reshape(-1, 28, 28).astype(np.uint8), data.y[::2]
model = DeepAML(epochs=2, early_stopping=False).fit(images[y < 5], y[y < 5])

learner = model.learner_  # any network with frozen weights will do
with torch.no_grad():
    Z = learner.features(learner.inputs(torch.from_numpy(images[:, None].astype(np.float32)))).numpy()

mine = np.flatnonzero(y >= 5)
train, test = mine[::2], mine[1::2]
Z = (Z - Z[train].mean(axis=0)) / Z[train].std(axis=0)
print(f"frozen features  ROC AUC {labelled_auc(Z[test], y[test]):.3f} on new images of the digits 5 to 9")
for metric in (GMML(), AML(), PairAML(random_state=0)):
    started = time.perf_counter()
    metric.fit(Z[train], y[train])
    seconds = time.perf_counter() - started
    found = labelled_auc(metric.transform(Z[test]), y[test])
    print(f"{type(metric).__name__:16s} ROC AUC {found:.3f}, learned in {seconds:.2f} s")
