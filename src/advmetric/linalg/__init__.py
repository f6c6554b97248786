"""Linear algebra of symmetric positive definite matrices, sparse products, centring and bases of spans."""
