"""What importing the library imports, and what it can do without. Each fresh interpreter is started once."""

import json
import subprocess
import sys

OPTIONAL = {
    *("typer", "rich", "torch", "dask", "distributed", "matplotlib", "faiss", "jinja2", "numba", "ot", "cv2", "PIL"),
    *("pandas", "pyarrow", "plotly"),
}

IMPORTS = """
import json, sys
import sklearn.neighbors
before = [*sys.modules]
import advmetric, advmetric.plots, advmetric.datasets
advmetric.MetricIndex, advmetric.AMLCV, advmetric.datasets.load_verification
print(json.dumps([before, [*sys.modules]]))
"""

BARE = """
import json, sys
absent = ["pandas", "pyarrow", "openpyxl", "matplotlib", "dask", "faiss"]
sys.modules.update(dict.fromkeys(absent))

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
from advmetric.datasets import load_dataset

found = {"shape": load_dataset("vehicle").X.shape, "datasets": "sklearn.datasets" in sys.modules}
import advmetric, advmetric.workflows.fit

found["loaded early"] = [name for name in sys.modules if name.startswith(("advmetric.cli", "advmetric.deep"))]
import advmetric.cli.app

try:
    import advmetric.deep
except ImportError as error:
    found["deep"] = str(error)
print(json.dumps(found))
"""


def printed_by(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_the_library_imports_no_optional_package():
    # scikit-learn itself imports some of them where they are installed: rich and pandas, for example.
    before, after = map(set, printed_by(IMPORTS))
    added = after - before
    assert {"advmetric", "advmetric.datasets", "advmetric.metric.index"} <= added
    assert {name.partition(".")[0] for name in added} & OPTIONAL == set()
    assert [name for name in added if name.startswith("advmetric.cli")] == []


def test_the_library_the_bundled_data_and_the_command_line_load_without_optional_packages():
    found = printed_by(BARE)
    assert found["shape"] == [846, 18]
    assert not found["datasets"], "scikit-learn's datasets are imported where they are used"
    assert found["loaded early"] == []
    assert 'pip install "advmetric[deep]"' in found["deep"]
