"""Errors about how something was asked for, rather than about the data."""

from __future__ import annotations

__all__ = ["UsageError"]


class UsageError(ValueError):
    """A request that makes no sense whatever the data: an unknown name, or options that exclude each other.

    Parameters
    ----------
    message : str
    option : str
        The option of the command line that is wrong, such as "--method".
    """

    def __init__(self, message: str, option: str) -> None:
        super().__init__(message)
        self.option = option
