"""Solvers that several methods share: functions of a value-and-gradient callable, with one type of result."""
