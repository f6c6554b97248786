"""Files of samples: tables (CSV, Parquet), npz files, and both in parts that are never in memory together."""
