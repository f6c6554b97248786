"""Run tasks, store their records and resume after any interruption; knows nothing about metric learning."""
