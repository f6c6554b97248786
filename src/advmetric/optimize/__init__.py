"""Solvers that several methods share: pure functions of a value-and-gradient callable."""
