"""Arrays of other libraries: PyTorch and every other library that follows the array API standard, on any device.

:func:`namespace` returns the module to call: NumPy for its own arrays, that of array-api-compat (extra ``arrays``) for
others. The other functions convert to and from NumPy.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .optional import require

__all__ = [
    "convert_like",
    "identity_like",
    "is_array_api",
    "is_lazy",
    "namespace",
    "norm",
    "real",
    "representation",
    "to_numpy",
    "vdot",
]


def _compat() -> Any:
    return require("array_api_compat", "work on arrays of other libraries")


def representation(X: Any) -> str:
    """Return "dense" (NumPy), "sparse" (SciPy) or "array_api" (another library)."""
    if issparse(X):
        return "sparse"
    return "array_api" if is_array_api(X) else "dense"


def is_lazy(X: Any) -> bool:
    """Return whether X is a Dask collection. (There is none unless Dask was imported.)"""
    dask: Any = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(X))


def is_array_api(X: Any) -> bool:
    """Return whether X is an array of another library; computations stay in that library."""
    if isinstance(X, (np.ndarray, np.generic, list, tuple)) or issparse(X) or hasattr(X, "__dask_graph__"):
        return False
    # PyTorch's and CuPy's arrays do not say that they follow the standard; array-api-compat makes them.
    if not hasattr(X, "__array_namespace__") and type(X).__module__.partition(".")[0] not in ("torch", "cupy"):
        return False
    return bool(_compat().is_array_api_obj(X))


def namespace(*arrays: Any) -> Any:
    """The module with the functions of the array API standard for these arrays."""
    if all(isinstance(array, (np.ndarray, np.generic)) for array in arrays):
        return np
    return _compat().array_namespace(*arrays)


def convert_like(values: Any, model: Any) -> Any:
    """Convert ``values`` to the library and device of ``model``; the data type is kept."""
    if not is_array_api(model):
        return to_numpy(values)
    xp, device = namespace(model), _compat().device(model)
    if is_array_api(values) and namespace(values) is xp:
        return _compat().to_device(values, device)
    return xp.asarray(to_numpy(values), device=device)


def to_numpy(values: Any) -> NDArray[Any]:
    """As a dense NumPy array, from whatever device."""
    if issparse(values):
        return values.toarray()
    if is_array_api(values):
        if hasattr(values, "detach"):  # PyTorch keeps values that are to be differentiated
            values = values.detach()
        if _compat().is_torch_array(values) or _compat().is_cupy_array(values):
            values = _compat().to_device(values, "cpu")
        elif hasattr(values, "__dlpack__"):
            return np.from_dlpack(values)
    return np.asarray(values)


def vdot(a: Any, b: Any) -> float:
    """⟨a, b⟩ = Σ aᵢⱼbᵢⱼ."""
    if isinstance(a, np.ndarray):
        return float(np.vdot(a, b))
    return float(namespace(a, b).sum(a * b))


def identity_like(M: Any) -> Any:
    """The identity matrix of the size, type and place of M."""
    if isinstance(M, np.ndarray):
        return np.eye(len(M))
    return namespace(M).eye(M.shape[0], dtype=M.dtype, device=_compat().device(M))


def norm(a: Any) -> float:
    """Frobenius norm."""
    return float(namespace(a).linalg.vector_norm(a))


def real(z: Any) -> Any:
    """Real part; of a real array, itself."""
    xp = namespace(z)
    return xp.real(z) if xp.isdtype(z.dtype, "complex floating") else z
