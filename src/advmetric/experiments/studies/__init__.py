"""The experiments: each file has its tasks, how one is run, and its section of the report."""
