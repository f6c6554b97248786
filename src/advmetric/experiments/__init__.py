"""The paper's experiments: an engine that runs and stores tasks, one file per study, and the report."""
