"""AML on your PyTorch model: a metric and its adversary in place of the loss, about ten lines of real use.

Trained on half of scikit-learn's digits, tested on pairs of the other half.
Run: python examples/deep_head.py
"""

import torch
from sklearn.datasets import load_digits

from advmetric import Mahalanobis, MetricIndex
from advmetric.deep import AMLHead
from advmetric.deep.backbones import small_cnn
from advmetric.deep.evaluation import labelled_auc

digits = load_digits()
images, labels = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, torch.tensor(digits.target)
train, test = torch.arange(900), torch.arange(900, 1797)

torch.manual_seed(0)
model = small_cnn((1, 8, 8), embedding=64, width=16)  # any nn.Module that returns (n, 64)
head = AMLHead(64)  # the metric L, the threshold b and the adversary
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=2e-3)
for _ in range(60):
    rows = train[torch.randperm(len(train))[:128]]
    loss = head(model(images[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

model.eval()
with torch.no_grad():
    embedded = head.transform(model(images)).numpy()  # Euclidean distances here are the learned ones
print(f"pixels:  ROC AUC {labelled_auc(digits.data[test], digits.target[test]):.3f}")
print(f"AMLHead: ROC AUC {labelled_auc(embedded[test], digits.target[test]):.3f}")
print(f"same digit if closer than {head.b.item() ** 0.5:.2f}")

index = MetricIndex(Mahalanobis(torch.eye(64).numpy())).add(embedded[train])  # retrieval
print(
    "neighbours of a", digits.target[900], "in the training half:", digits.target[index.query(embedded[900:901])[1][0]]
)
