"""Draw the picture of the README: python tools/readme_figure.py."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from advmetric import AML, GMML
from advmetric.experiments.protocol import split
from advmetric.plots import plot_embedding, plot_spectrum

parts = split("image-segment", 0)
learners = {"Euclidean": None, "AML": AML(t=0.1, alpha=10.0, beta=0.1).fit(parts.X_train, parts.y_train)}
plt.rcParams["font.size"] = 9
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.3), layout="constrained")
for ax, (name, learner) in zip(axes, learners.items(), strict=False):
    train, test = ((Z if learner is None else learner.transform(Z)) for Z in (parts.X_train, parts.X_test))
    directions = np.linalg.svd(train - train.mean(axis=0), full_matrices=False)[2][:2]
    plot_embedding(test @ directions.T, parts.y_test, ax=ax, title=f"{name}: unseen test points")
spectra = {
    name: np.linalg.svd(learner.fit(parts.X_train, parts.y_train).components_, compute_uv=False) ** 2
    for name, learner in {
        "GMML": GMML(t=0.1),
        "AML, alpha = 10": AML(t=0.1, alpha=10.0, beta=0.1),
        "AML, alpha = 1000": AML(t=0.1, alpha=1000.0, beta=0.1),
    }.items()
}
plot_spectrum(spectra, ax=axes[2], title="the adversary flattens the spectrum")
figure.savefig(Path(__file__).parent.parent / "docs" / "images" / "embedding.png", dpi=110)
