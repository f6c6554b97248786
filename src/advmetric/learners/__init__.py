"""The contract that all estimators share: input, fitting, decisions on pairs, tuning, batches, Dask."""
