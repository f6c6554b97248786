"""Slow, obvious re-statements of the paper and of the algebra it needs: oracles for the tests."""
