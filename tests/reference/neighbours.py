"""Errors of nearest neighbours, with and without a learned metric."""

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler


def scaled_and_learned_error(learner, X, y, n_splits=5):
    """Mean 5-NN error over random splits: on standardised features, and on those that the learner transforms."""
    errors = []
    for train, test in StratifiedShuffleSplit(n_splits, test_size=0.3, random_state=0).split(X, y):
        for transformer in (StandardScaler(), learner):
            transform = transformer.fit(X[train], y[train]).transform
            neighbours = KNeighborsClassifier(5).fit(transform(X[train]), y[train])
            errors.append(1 - neighbours.score(transform(X[test]), y[test]))
    return np.mean(errors[::2]), np.mean(errors[1::2])
