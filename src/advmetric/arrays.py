"""Arrays of other libraries: PyTorch and whatever else follows the array API standard, on any device.

Code that runs on them asks :func:`namespace` for the module to call, NumPy for NumPy's arrays and that of
array-api-compat (extra ``arrays``) for others, and uses what the standard has. The rest is getting there and back.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

__all__ = ["identity_like", "is_foreign", "like", "namespace", "norm", "real", "to_numpy", "vdot"]


def _compat() -> Any:
    return import_module("array_api_compat")


def is_foreign(X: Any) -> bool:
    """Whether X is an array of another library, which work is done in and results are given in."""
    if isinstance(X, (np.ndarray, np.generic, list, tuple)) or issparse(X) or hasattr(X, "__dask_graph__"):
        return False
    # PyTorch's and CuPy's arrays do not say that they follow the standard; array-api-compat makes them.
    if not hasattr(X, "__array_namespace__") and type(X).__module__.partition(".")[0] not in ("torch", "cupy"):
        return False
    if find_spec("array_api_compat") is None:
        raise ImportError(
            f"arrays of {type(X).__module__} need array-api-compat: pip install 'advmetric[arrays]' "
            "(or pass NumPy arrays)."
        )
    return bool(_compat().is_array_api_obj(X))


def namespace(*arrays: Any) -> Any:
    """The module with the functions of the array API standard for these arrays."""
    if all(isinstance(array, (np.ndarray, np.generic)) for array in arrays):
        return np
    return _compat().array_namespace(*arrays)


def like(values: Any, model: Any) -> Any:
    """``values`` as an array of the library and on the device of ``model``; of the same type as before."""
    if not is_foreign(model):
        return to_numpy(values)
    xp, device = namespace(model), _compat().device(model)
    if is_foreign(values) and namespace(values) is xp:
        return _compat().to_device(values, device)
    return xp.asarray(to_numpy(values), device=device)


def to_numpy(values: Any) -> NDArray[Any]:
    """As a dense NumPy array, from whatever device."""
    if issparse(values):
        return values.toarray()
    if is_foreign(values):
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
