"""advmetric: distances that hold up on ambiguous data.

Adversarial Metric Learning (Chen et al., IJCAI 2018) and the methods it is compared with, behind one
scikit-learn interface for class labels and for pairs.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ._public import *  # noqa: F403
    from ._public import __all__ as __all__
else:

    def __getattr__(name):
        """Import the public names when one is first asked for.

        The command line starts with this module: what it imports, Ctrl-C would interrupt with a traceback.
        """
        if name != "_public":
            import advmetric._public as public

            globals().update({known: getattr(public, known) for known in ("__all__", *public.__all__)})
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module 'advmetric' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})
