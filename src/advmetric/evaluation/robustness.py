"""What an adversary can do to a learned metric at test time, when every test point may move by eps.

    pairs:  max or min of (v + δ)ᵀM(v + δ) over ‖δ‖ <= 2 eps       exact, a trust-region problem
    k-NN:   a place x + δ, ‖δ‖ <= eps, with another prediction     an attack (found) and a certificate (excluded)

‖·‖ is Euclidean in the features that the metric M = LᵀL is given. The worst-case error of k-NN lies between the
attacked error and the uncertified share. The scale of M does not matter: L is divided by its norm throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advmetric.metric.knn import knn_predict
from advmetric.utils.typing import Matrix, Vector

from .field import Field, Flags, Indices, Labels, smallest
from .worst_pairs import ROUNDING, check_radius, worst_pair_auc

__all__ = [
    "RobustnessCurve",
    "attack_knn",
    "certified_knn",
    "certified_radius",
    "robustness_curve",
]

RIVALS = 3
"""Rival classes an attack tries for each test point."""
CANDIDATES = 24
"""Points of each class that an attack looks at: the nearest to where it starts."""


@dataclass(frozen=True)
class RobustnessCurve:
    """Quality under attack for each eps; the worst-case k-NN error lies in [attacked_error, uncertified].

    See Also
    --------
    robustness_curve : computes it.

    Examples
    --------
    >>> import numpy as np
    >>> curve = RobustnessCurve(np.array([0.0, 0.1]), np.array([0.2, 0.3]), np.array([0.2, 0.4]), np.array([0.9, 0.8]))
    >>> bool(np.all(curve.attacked_error <= curve.uncertified))
    True
    """

    epsilons: Vector
    attacked_error: Vector
    """Share of test points that are wrong already or that the attack made wrong, here or at a smaller eps."""
    uncertified: Vector
    """Share of test points whose prediction is not proved right."""
    pair_auc: Vector
    """ROC AUC of the distance when every pair is in its own worst case."""


def robustness_curve(
    L: ArrayLike,
    X_train: ArrayLike,
    y_train: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    epsilons: ArrayLike,
    pairs: ArrayLike,
    pair_labels: ArrayLike,
    k: int = 5,
    *,
    steps: int = 12,
) -> RobustnessCurve:
    """Attacked k-NN error, uncertified share and worst-case pair AUC for each eps.

    Parameters
    ----------
    L : (r, d) array
        Components of the metric, M = LᵀL.
    X_train, X_test : array-likes of shape (n, d)
    y_train, y_test : array-likes of class labels
        Ties go to the smaller label.
    epsilons : (m,) array
        Radii, not decreasing. A point fooled at one radius stays fooled (the balls are nested).
    pairs : (N, d) array of differences, or (N, 2, d) array of pairs
    pair_labels : (N,) array
        Positive for similar pairs.

    Notes
    -----
    O(n_test n_train (r + d) k) for the certificate, once for all radii, and as much for every step of the attack.

    See Also
    --------
    certified_radius : the radius of each test point behind ``uncertified``.
    attack_knn : the attack behind ``attacked_error``.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> test, label = np.array([[2.0]]), np.array([0])
    >>> pairs, same = np.array([[1.0], [4.0]]), np.array([1, -1])
    >>> curve = robustness_curve(np.eye(1), X, y, test, label, [0.1, 0.6], pairs, same, k=1)
    >>> curve.attacked_error.tolist(), curve.uncertified.tolist()
    ([0.0, 1.0], [0.0, 1.0])

    The test point at 2 is nearer to class 1 once it has moved by 0.5.
    """
    radii = np.asarray(epsilons, dtype=np.float64)
    if radii.ndim != 1 or np.any(np.diff(radii) < 0.0):
        raise ValueError("epsilons must be a list of numbers that does not decrease.")
    V, same = np.asarray(pairs, dtype=np.float64), np.asarray(pair_labels)
    V = V[:, 0] - V[:, 1] if V.ndim == 3 else V
    field = Field.of(L, X_train, y_train, X_test, y_test, k)
    certified = certified_radius(L, X_train, y_train, X_test, y_test, k)
    fooled = np.zeros(len(field.T), dtype=bool)
    attacked = []
    for eps in radii:
        standing = np.flatnonzero(~fooled)
        fooled[standing] = _attack(field, standing, float(eps), steps)
        attacked.append(fooled.mean())
    return RobustnessCurve(
        epsilons=radii,
        attacked_error=np.array(attacked),
        uncertified=np.array([np.mean(certified <= eps) for eps in radii]),
        pair_auc=np.array([worst_pair_auc(np.asarray(L), V, same, float(eps)) for eps in radii]),
    )


# --- the certificate ------------------------------------------------------------------------------------


def certified_knn(
    L: ArrayLike, X_train: ArrayLike, y_train: ArrayLike, X_test: ArrayLike, y_test: ArrayLike, eps: float, k: int = 5
) -> Flags:
    """True where no x + δ, ‖δ‖ <= eps, is misclassified, by proof: ``certified_radius(...) > eps``.

    See Also
    --------
    attack_knn : looks for an example of the contrary.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> certified_knn(np.eye(1), X, y, np.array([[1.0], [2.0]]), np.array([0, 0]), eps=0.6, k=1).tolist()
    [True, False]
    """
    check_radius(eps)
    return certified_radius(L, X_train, y_train, X_test, y_test, k) > eps


def certified_radius(
    L: ArrayLike, X_train: ArrayLike, y_train: ArrayLike, X_test: ArrayLike, y_test: ArrayLike, k: int = 5
) -> Vector:
    """Radius below which the k-NN prediction is provably right; 0 where it is wrong already.

    Point j can get ahead of point s within eps if and only if d_j² - d_s² <= 2 eps ‖M(x_j - x_s)‖; this gives a
    critical radius for each j and s, and every rule on who gets ahead of whom a radius. The better of two counts.

    *Majority.* S are the m = ⌊k/2⌋ + 1 nearest points of the right class, and for every s in S at most k - m points
    of other classes can get ahead. Proof: without a majority at some place, some s in S is not among the k nearest
    there, but k - m + 1 others of other classes are, all of them ahead of s: one more than can be.

    *Exchange.* T are the k nearest points. A point can leave T only if one outside gets ahead of it, and enter only
    by getting ahead of one inside. The right class keeps at least its votes in T less its possible leavers, another
    class has at most its votes in T plus its possible entrants; the former must stay larger, or equal where the tie
    goes to the right class.

    The second rule alone sees predictions without a majority (2-1-1-1, or 2-2-1 with the smaller label); with it the
    radius is positive wherever k-NN is right, except where points of different classes are equally near up to
    rounding: a tie counts as lost. Rounding errors are charged to the certificate, never to the adversary.

    Returns
    -------
    (n_test,) array; inf where nothing can go wrong (one class).

    See Also
    --------
    certified_knn : whether the radius is larger than eps.
    robustness_curve : the share of points that are certified, for several eps.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> certified_radius(np.eye(1), X, y, np.array([[1.0], [2.0], [3.0]]), np.array([0, 0, 0]), k=1).round(3).tolist()
    [1.5, 0.5, 0.0]
    """
    field = Field.of(L, X_train, y_train, X_test, y_test, k)
    m, n, y = field.majority, len(field.Z), field.y
    classes = np.arange(int(y.max()) + 1)
    sizes = np.bincount(y, minlength=len(classes))
    radius = np.empty(len(field.T))
    for place, _, D in field.blocks(np.arange(len(field.T)), (m + k) * n):
        label = field.y_test[place, None]
        rival = y != label
        own = smallest(np.where(rival, np.inf, D), min(m, n))
        inside = smallest(D, k)
        critical = _critical_radii(field, D, np.concatenate([own, inside], axis=1))

        ahead = np.where(rival[:, None, :], critical[:, : own.shape[1]], np.inf)
        allowed = k - m
        by_majority = np.partition(ahead, allowed, axis=2)[:, :, allowed].min(axis=1)
        enough = np.isin(label[:, 0], np.flatnonzero(sizes >= m))

        exchange = critical[:, own.shape[1] :]
        np.put_along_axis(exchange, np.broadcast_to(inside[:, None, :], (len(D), k, k)), np.inf, axis=2)
        by_exchange = _exchange_radius(exchange, y, y[inside], label, classes)
        radius[place] = np.maximum(np.where(enough, by_majority, 0.0), by_exchange)
    return np.maximum(radius, 0.0)


def _critical_radii(field: Field, D: Matrix, anchors: Indices) -> NDArray[np.float64]:
    """(d_j² - d_s²) / 2‖M(x_j - x_s)‖ for all training points j and the anchors s of each row: (rows, anchors, n)."""
    W = field.W
    squares = np.einsum("ij,ij->i", W, W)
    norms = (W[anchors.ravel()] @ (-2.0 * W.T)).reshape(*anchors.shape, len(W))
    norms += squares
    # Both charges err to the adversary's side; they also settle 0/0 (equal points) as a tie, that is as lost.
    norms += squares[anchors][:, :, None] + ROUNDING * squares.max()
    np.sqrt(np.maximum(norms, np.finfo(np.float64).tiny, out=norms), out=norms)
    gaps = D[:, None, :] - np.take_along_axis(D, anchors, axis=1)[:, :, None]
    gaps -= ROUNDING * D.max(axis=1)[:, None, None]
    gaps /= norms
    gaps *= 0.5
    return gaps


def _exchange_radius(
    critical: NDArray[np.float64], y: Labels, voters: Labels, label: Labels, classes: Labels
) -> Vector:
    """Least radius at which q own points may have left the k nearest and p points of one rival class entered them,
    with p + q enough to take the lead; ``critical`` is (rows, k, n), inf for points inside."""
    rows, k, _ = critical.shape
    # [:, q]: the radius from which q of the own points may have left; none have at -inf.
    leave = np.full((rows, k + 2), np.inf)
    leave[:, 0] = -np.inf
    leave[:, 1 : k + 1] = np.sort(np.where(voters == label, critical.min(axis=2), np.inf), axis=1)
    first = critical.min(axis=1)
    votes = np.sum(voters == label, axis=1)
    radius = np.full(rows, np.inf)
    for rival in classes:
        mine = first[:, y == rival]
        count = min(k, mine.shape[1])
        enter = np.full((rows, k + 2), np.inf)
        enter[:, 0] = -np.inf
        enter[:, 1 : count + 1] = np.take_along_axis(mine, smallest(mine, count), axis=1) if count else np.inf
        lead = votes - np.sum(voters == rival, axis=1) + (rival > label[:, 0])
        for q in range(k + 1):
            p = np.clip(lead - q, 0, k + 1)[:, None]
            lost = np.maximum(leave[:, q], np.take_along_axis(enter, p, axis=1)[:, 0])
            radius = np.where(rival != label[:, 0], np.minimum(radius, lost), radius)
    return radius


# --- the attack -----------------------------------------------------------------------------------------


def attack_knn(
    L: ArrayLike,
    X_train: ArrayLike,
    y_train: ArrayLike,
    X_test: ArrayLike,
    y_test: ArrayLike,
    eps: float,
    k: int = 5,
    *,
    steps: int = 12,
) -> Flags:
    """True where some x + δ, ‖δ‖ <= eps, is misclassified, by example (δ = 0 included).

    Ascent on d_O² - d_R², R points of a rival class near x + δ and O such points of the right class: affine in δ with
    gradient 2M(mean R - mean O). Each of the nearest rival classes is tried. The first two steps go to the maximum on
    the ball, δ = eps g/‖g‖, first for the m = ⌊k/2⌋ + 1 nearest points on each side, then for the m-th alone, the
    pair that decides on a majority; later steps follow that pair, ever shorter, and are projected on the ball. R and O
    are picked anew at each place, and success at any place counts.

    A point not fooled may still be fooled by a better attack: what this finds is a lower bound.

    See Also
    --------
    certified_knn : proves that no attack can succeed.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> attack_knn(np.eye(1), X, y, np.array([[1.0], [2.0]]), np.array([0, 0]), eps=0.6, k=1).tolist()
    [False, True]
    """
    field = Field.of(L, X_train, y_train, X_test, y_test, k)
    return _attack(field, np.arange(len(field.T)), eps, steps)


def _attack(field: Field, rows: Indices, eps: float, steps: int) -> Flags:
    """Attack the test points ``rows``."""
    check_radius(eps)
    label = field.y_test[rows]
    fooled: Flags = knn_predict(field.Z, field.y, field.T[rows], field.k) != label
    if eps == 0.0 or len(np.unique(field.y)) == 1:
        return fooled
    standing = np.flatnonzero(~fooled)
    width = max(len(field.y), 2 * RIVALS * CANDIDATES * field.Z.shape[1])
    for place, chosen, D in field.blocks(rows[standing], width):
        block = standing[place]
        own, rivals = _opponents(D, field.y, label[block])
        fooled[block] = _ascend(field, field.T[chosen], label[block], own, rivals, eps, steps)
    return fooled


def _opponents(D: Matrix, y: Labels, label: Labels) -> tuple[Indices, Indices]:
    """Nearest points of the right class, (rows, c), and of the nearest rival classes, (rows, b, c); -1 for none."""
    classes = np.unique(y)
    nearest = np.full((len(D), len(classes), CANDIDATES), -1)
    remoteness = np.empty((len(D), len(classes)))
    for code, c in enumerate(classes):
        members = np.flatnonzero(y == c)
        found = members[smallest(D[:, members], min(CANDIDATES, len(members)))]
        nearest[:, code, : found.shape[1]] = found
        remoteness[:, code] = np.take_along_axis(D, found[:, :3], axis=1).mean(axis=1)
    rows, right = np.arange(len(D)), np.searchsorted(classes, label)
    remoteness[rows, right] = np.inf
    rivals = np.argsort(remoteness, axis=1)[:, : min(RIVALS, len(classes) - 1)]
    return nearest[rows, right], np.take_along_axis(nearest, rivals[:, :, None], axis=1)


def _ascend(field: Field, T: Matrix, label: Labels, own: Indices, rivals: Indices, eps: float, steps: int) -> Flags:
    """Projected gradient from T, the test points' images; R and O are picked from ``rivals`` and ``own``."""
    fooled = np.zeros(len(T), dtype=bool)
    # One attempt for each test point and rival class.
    owner = np.repeat(np.arange(len(T)), rivals.shape[1])
    rivals = rivals.reshape(-1, rivals.shape[2])
    delta = np.zeros((len(owner), field.L.shape[1]))
    z = T[owner]
    for step in range(steps):
        towards = _picked(field, rivals, z, all_of_them=step == 0)
        g = _unit(towards - _picked(field, own[owner], z, all_of_them=step == 0))
        delta = eps * g if step < 2 else delta + (2.0 * eps / (step + 1)) * g
        delta *= np.minimum(1.0, eps / np.maximum(np.linalg.norm(delta, axis=1, keepdims=True), eps))
        z = T[owner] + delta @ field.L.T
        wrong = knn_predict(field.Z, field.y, z, field.k) != label[owner]
        fooled[owner[wrong]] = True
        standing = ~fooled[owner]
        if not standing.any():
            break
        owner, rivals, delta, z = owner[standing], rivals[standing], delta[standing], z[standing]
    return fooled


def _picked(field: Field, candidates: Indices, z: Matrix, *, all_of_them: bool) -> Matrix:
    """Image under M of the candidate that is m-th nearest to z, or the mean image of the m nearest."""
    Z = field.Z[candidates]
    # Up to ‖z‖², the same for all.
    D = np.einsum("ijr,ijr->ij", Z, Z) - 2.0 * np.einsum("ijr,ir->ij", Z, z)
    D[candidates < 0] = np.inf
    picked = np.take_along_axis(candidates, smallest(D, min(field.majority, D.shape[1])), axis=1)
    count = np.sum(picked >= 0, axis=1, keepdims=True)
    if not all_of_them:
        return field.W[np.take_along_axis(picked, count - 1, axis=1)[:, 0]]
    return np.einsum("ij,ijd->id", (picked >= 0) / count, field.W[picked])


def _unit(G: Matrix) -> Matrix:
    """Rows of length 1; rows of zeros stay."""
    lengths = np.linalg.norm(G, axis=1, keepdims=True)
    return G / np.where(lengths > 0.0, lengths, 1.0)
