"""The methods, one file each, or a folder where problem, solver and estimator are separate; and their registry."""
