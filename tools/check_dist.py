"""Install the wheel into empty environments and use it: without extras, then with each extra alone.

    python tools/check_dist.py dist/advmetric-*.whl [--only none,cli,plots]

Each environment is made in a temporary folder and removed. torch is pinned to the version of the tests: a plain
torch may pull gigabytes of GPU libraries.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_FOR_USERS = ("all", "test", "docs", "dev")
PINNED = ("torch==2.13.0",)

START = """
import numpy as np
from advmetric import AML, GMML, ITML, RVML, MetricIndex, Mahalanobis, load_dataset
data = load_dataset("vehicle")
X, y = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0), data.y
"""
CSV = """
with open("cars.csv", "w") as file:
    print("a,b,c,class", file=file)
    for row, label in zip(X[:120], y):
        print(*row[:3], label, sep=",", file=file)
"""
RUN = """
import subprocess, sys
def run(*arguments, code=0):
    done = subprocess.run([sys.executable, "-m", "advmetric", *arguments], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr
"""
SMOKE = {
    "none": RUN
    + """
AML().fit(X, y).get_metric().save("cars.metric.npz")
assert Mahalanobis.load("cars.metric.npz").components.shape == (18, 18)
indices, same = np.arange(200).reshape(-1, 2), np.tile([1, -1], 50)
assert AML(preprocessor=X).fit(indices, same).predict_proba(indices).shape == (100, 2)
assert MetricIndex(AML().fit(X, y).get_metric()).add(X).query(X[:3])[1].shape[0] == 3
assert 'pip install "advmetric[cli]"' in run("--help", code=1)
""",
    "plots": """
import matplotlib; matplotlib.use("agg")
from advmetric.plots import plot_embedding, plot_metric
plot_embedding(X, y, metric=AML().fit(X, y)).figure.savefig("embedding.png")
""",
    "cli": CSV + RUN + 'assert "Saved" in run("fit", "cars.csv", "--label", "class", "--no-tune")',
    "explore": CSV + RUN + 'assert "Wrote" in run("explore", "cars.csv", "--label", "class", "--no-tune")',
    "report": """
from pathlib import Path
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.reproduce import reproduce
plan = Plan(profile="quick", datasets=("vehicle",), methods=("Euclidean", "GMML"), trials=1)
assert "<svg" in reproduce(Path("results"), plan, ["table1"]).read_text()
""",
    "tables": CSV
    + """
import pandas
from pathlib import Path
from advmetric.io.samples import read_points
pandas.read_csv("cars.csv").to_parquet("cars.parquet")
pandas.read_csv("cars.csv").to_excel("cars.xlsx", index=False)
for name in ("cars.parquet", "cars.xlsx"):
    assert read_points(Path(name), "class").X.shape == (120, 3)
""",
    "fast": "import numba; ITML(solver='projections', pairs=200, random_state=0).fit(X, y)",
    "ot": "RVML(targets='transport').fit(X[:200], y[:200])",
    "vision": """
from advmetric.features import dense_sift
assert np.isfinite(dense_sift(np.random.default_rng(0).integers(256, size=(2, 48, 48), dtype=np.uint8))).all()
""",
    "deep": """
import torch
from advmetric.deep import AMLHead
head = AMLHead(18)
head(torch.tensor(X[:60], dtype=torch.float32), torch.tensor(y[:60])).backward()
assert torch.isfinite(next(head.parameters()).grad).all()
""",
    "dask": """
import dask.array as da
np.testing.assert_allclose(
    AML().fit(da.from_array(X, chunks=(200, 18)), da.from_array(y, chunks=200)).get_mahalanobis_matrix(),
    AML().fit(X, y).get_mahalanobis_matrix(), rtol=1e-6)
""",
    "faiss": """
import faiss
assert MetricIndex(AML().fit(X, y).get_metric()).add(X).query(X[:3])[1][:, 0].tolist() == [0, 1, 2]
""",
    "arrays": "import array_api_compat; AML().fit(X, y)",
}


def extras() -> list[str]:
    """Return the extras that users install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name not in NOT_FOR_USERS]


def check(wheel: Path, extra: str) -> None:
    """Install the wheel with one extra (or "none") into an empty environment, and run its smoke test there."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(f"{folder}/env", with_pip=False)
        python = Path(folder) / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        constraints, script = Path(folder) / "constraints.txt", Path(folder) / "smoke.py"
        constraints.write_text("\n".join(PINNED), encoding="utf-8")
        script.write_text(START + SMOKE[extra], encoding="utf-8")
        what = str(wheel) if extra == "none" else f"advmetric[{extra}] @ {wheel.as_uri()}"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
        # --no-compile: only what the smoke test imports is compiled, when it is.
        subprocess.run([*pip, "install", "--quiet", "--no-compile", "-c", str(constraints), what], check=True)
        subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)
        # Warnings are shown, not raised: they may be those of other packages. Nothing of this clone is importable.
        subprocess.run([str(python), "-I", str(script)], cwd=folder, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--only", help="extras to check, separated by commas; none for the plain wheel")
    given = parser.parse_args()
    missing = sorted({"none", *extras()} ^ set(SMOKE))
    if missing:
        print(f"no smoke test, or no extra: {', '.join(missing)}", file=sys.stderr)
        return 1
    failed = []
    for extra in given.only.split(",") if given.only else SMOKE:
        started = time.monotonic()
        try:
            check(given.wheel.resolve(), extra)
        except subprocess.CalledProcessError as error:
            failed.append(extra)
            print(f"{extra}: failed ({error})", file=sys.stderr)
        else:
            print(f"{extra}: ok, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
