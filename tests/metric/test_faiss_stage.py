"""The calls of faiss, also after its support of PyTorch has replaced them."""

import subprocess
import sys

import pytest

pytest.importorskip("faiss")
pytest.importorskip("torch")

CODE = """
import faiss, numpy as np
import faiss.contrib.torch_utils
from advmetric import Mahalanobis, MetricIndex
X = np.random.default_rng(0).normal(size=(400, 3))
for kind in ("exact", "ivf", "hnsw"):
    index = MetricIndex(Mahalanobis(np.eye(3)), kind=kind, engine="faiss", nlist=20 if kind == "ivf" else None)
    for rows in (5, 50):
        assert (index.add(X).query(X[:rows], 1)[0] < 1e-2).all() if not len(index) else True
        assert (index.query(X[:rows], 1)[0] < 1e-2).all()
    index.nprobe = 1
    index.query(X[:5], 100)  # more than a cell holds: every cell is searched
"""


@pytest.mark.slow
def test_a_search_works_after_torch_utils_replaced_the_methods_of_faiss():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
