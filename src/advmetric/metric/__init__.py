"""A learned distance: the metric itself, thresholds, k-NN and indices of many points."""
