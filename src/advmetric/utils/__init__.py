"""Helpers that know nothing about metrics: types, optional imports, arrays, parameters, validation, files, progress."""
