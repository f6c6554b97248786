"""What importing the library imports."""

import json
import subprocess
import sys

OPTIONAL = {
    *("typer", "rich", "torch", "dask", "distributed", "matplotlib", "faiss", "jinja2", "numba", "ot", "cv2", "PIL"),
    *("pandas", "pyarrow", "plotly"),
}


def modules_after(code):
    code = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    return set(json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout))


def test_the_library_imports_no_optional_package():
    # scikit-learn itself imports some of them where they are installed: rich and pandas, for example.
    before = modules_after("import sklearn.neighbors")
    added = modules_after("import sklearn.neighbors, advmetric, advmetric.plots, advmetric.datasets") - before
    assert "advmetric" in added
    assert {name.partition(".")[0] for name in added} & OPTIONAL == set()
