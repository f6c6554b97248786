"""How good a distance is: scores, ROC curves, significance, robustness to moved points."""
