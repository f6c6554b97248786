"""AMLHead: its adversary is the worst move, its losses are those of a plain restatement, its gradients are right."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from advmetric.deep import AMLHead
from advmetric.deep.dense import dense_distances
from advmetric.deep.functional import adversarial_embeddings, squared_distances


def head_of(d=5, r=None, seed=0, **settings):
    """A head in double precision whose L is no multiple of the identity."""
    head = AMLHead(d, r, **{"beta": 1.0, "scale": 4.0, "weighting": "uniform"} | settings).double()
    with torch.no_grad():
        generator = torch.Generator().manual_seed(seed)
        head.weight += 0.3 * torch.randn(head.weight.shape, dtype=torch.float64, generator=generator)
        head.offset.fill_(0.7)
    return head


# --- the restatement: loops over pairs, with explicit K ---------------------------------------------------------------


def softplus(x):
    return np.logaddexp(0.0, x)


class Plain:
    """The head in NumPy, one pair at a time."""

    def __init__(self, head):
        self.L, self.b, self.c, self.alpha = head.L.detach().numpy(), head.b.item(), head.c, head.alpha
        self.normalize = head.normalize
        self.M = self.L.T @ self.L
        self.K = np.eye(len(self.M)) + self.M / self.c

    def features(self, z):
        return z / np.linalg.norm(z, axis=1, keepdims=True) if self.normalize else z

    def squares(self, z, w, similar):
        v = self.features(z[None])[0] - self.features(w[None])[0]
        moved = self.M @ self.K if similar else self.M @ np.linalg.inv(self.K)
        return v @ self.M @ v, v @ moved @ v

    def pair(self, z, w, similar):
        y = 1 if similar else -1
        real, adversarial = self.squares(z, w, similar)
        return (softplus(y * (real - self.b)) + self.alpha * softplus(y * (adversarial - self.b))) / (1 + self.alpha)

    def listed(self, triples):
        """Half of the mean over each kind of (z, w, similar)."""
        kinds = [[self.pair(*triple) for triple in triples if triple[2] is kind] for kind in (True, False)]
        return sum(0.5 * np.mean(kind) for kind in kinds if kind)

    def neighbors(self, z, labels, loss, k_s=None, k_d=None):
        totals = [[], []]
        for i in range(len(z)):
            near = [j for j in range(len(z)) if j != i and labels[j] == labels[i]]
            far = [j for j in range(len(z)) if labels[j] != labels[i]]
            near = sorted(near, key=lambda j: self.squares(z[i], z[j], True)[0])[:k_s]
            far = sorted(far, key=lambda j: self.squares(z[i], z[j], False)[0])[:k_d]
            if not near or not far:
                continue
            for adversary in (0, 1):
                s = np.array([self.squares(z[i], z[j], True)[adversary] for j in near])
                d = np.array([self.squares(z[i], z[j], False)[adversary] for j in far])
                if loss == "softmax":
                    totals[adversary].append(-np.log(np.exp(-s).sum() / (np.exp(-s).sum() + np.exp(-d).sum())))
                else:
                    totals[adversary].append(np.mean([softplus(a - b + 1) for a in s for b in d]))
        return (np.mean(totals[0]) + self.alpha * np.mean(totals[1])) / (1 + self.alpha)


def all_pairs(z, labels):
    return [(z[i], z[j], bool(labels[i] == labels[j])) for i, j in itertools.permutations(range(len(z)), 2)]


SETTINGS = [{}, {"r": 3}, {"alpha": 0.0}, {"alpha": 4.0, "beta": 0.1}, {"normalize": False, "scale": 0.5}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_pair_loss_of_a_labelled_batch_is_the_plain_one(batch, settings):
    z, labels = batch
    head = head_of(**settings)
    expected = Plain(head).listed(all_pairs(z.numpy(), labels.numpy()))
    assert head(z, labels).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(
    ("loss", "k_s", "k_d"), [("softmax", None, None), ("softmax", 1, 4), ("margin", 1, 3), ("margin", 3, 20)]
)
def test_neighbor_losses_are_the_plain_ones(batch, settings, loss, k_s, k_d):
    z, labels = batch
    head = head_of(**settings, loss=loss, n_similar=k_s, n_dissimilar=k_d)
    expected = Plain(head).neighbors(z.numpy(), labels.numpy(), loss, k_s, k_d)
    assert head(z, labels).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n", [4, 40])
def test_index_tuples_index_pairs_and_formed_pairs_agree(n):
    """n = 4 measures pairs through the matrix of distances, n = 40 one by one."""
    z = torch.randn(n, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    pairs, kinds = torch.tensor([[0, 1], [2, 3], [1, 3], [0, 3]]), torch.tensor([1, 1, -1, -1])
    head = head_of(alpha=2.0)
    expected = Plain(head).listed(
        [(z[i].numpy(), z[j].numpy(), bool(k > 0)) for (i, j), k in zip(pairs, kinds, strict=True)]
    )
    a1, p, a2, m = pairs[:2, 0], pairs[:2, 1], pairs[2:, 0], pairs[2:, 1]
    for loss in (head(z, indices_tuple=(a1, p, a2, m)), head(z, kinds, pairs=pairs), head(z[pairs], kinds)):
        assert loss.item() == pytest.approx(expected, rel=1e-10)


def test_triplets_are_their_two_pairs(batch):
    z, _ = batch
    head, a, p, n = head_of(), torch.tensor([0, 1]), torch.tensor([4, 5]), torch.tensor([2, 7])
    assert head(z, indices_tuple=(a, p, n)) == head(z, indices_tuple=(a, p, a, n))


@pytest.mark.parametrize("loss", ["pair", "softmax", "margin"])
def test_reference_embeddings_equal_to_the_batch_add_only_self_pairs(batch, loss):
    z, labels = batch
    head = head_of(loss=loss)
    masks = labels[:, None] == labels[None, :]
    a1, p = torch.nonzero(masks & ~torch.eye(12, dtype=torch.bool), as_tuple=True)
    a2, n = torch.nonzero(~masks, as_tuple=True)
    from_tuple = head(z, indices_tuple=(a1, p, a2, n), ref_emb=z.clone())
    assert from_tuple.item() == pytest.approx(head(z, labels).item(), rel=1e-10)
    plain = Plain(head)
    if loss == "pair":
        z_, y_ = z.numpy(), labels.numpy()
        both = [(z_[i], z_[j], bool(y_[i] == y_[j])) for i, j in itertools.product(range(12), repeat=2)]
        with_self = head(z, labels, ref_emb=z.clone(), ref_labels=labels).item()
        assert with_self == pytest.approx(plain.listed(both), rel=1e-10)


# --- the adversary --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [None, 2])
def test_adversarial_distances_are_the_worst_moves(rng, r):
    head = head_of(r=r, beta=0.5, normalize=False)
    M, c = (head.L.T @ head.L).detach().numpy(), head.c
    z = torch.from_numpy(rng.normal(size=(2, 5)))
    v = (z[0] - z[1]).numpy()
    pushed, pulled = adversarial_embeddings(head.transform(z), head.L, c)
    nearest = minimize(lambda d: (v + d) @ M @ (v + d) + c * d @ d, np.zeros(5), tol=1e-12)
    farthest = minimize(lambda d: -(v @ M @ v + 2 * v @ M @ d - c * d @ d), np.zeros(5), tol=1e-12)
    assert (pulled[0] - pulled[1]).square().sum().item() == pytest.approx(nearest.fun, rel=1e-6)
    assert (pushed[0] - pushed[1]).square().sum().item() == pytest.approx(-farthest.fun, rel=1e-6)


def test_the_adversary_only_ever_makes_pairs_harder(batch):
    z, _ = batch
    head = head_of()
    h = head.transform(z)
    real, pushed, pulled = (squared_distances(u, u) for u in (h, *adversarial_embeddings(h, head.L, head.c)))
    off = ~torch.eye(12, dtype=torch.bool)
    assert (pushed[off] > real[off]).all()
    assert (pulled[off] < real[off]).all()


def test_a_high_price_leaves_no_adversary(batch):
    z, labels = batch
    assert head_of(beta=1e12)(z, labels).item() == pytest.approx(head_of(alpha=0.0)(z, labels).item(), rel=1e-8)


# --- gradients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["pair", "softmax", "margin"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_gradients_by_features_metric_and_threshold(batch, loss, settings):
    z, labels = batch
    head = head_of(loss=loss, **settings)
    parameters = (z.requires_grad_(), head.weight, head.offset)

    def value(z, weight, offset):
        return torch.func.functional_call(head, {"weight": weight, "offset": offset}, (z, labels))

    assert torch.autograd.gradcheck(value, parameters, atol=1e-7)


@pytest.mark.parametrize("n", [6, 14])
def test_gradients_with_index_tuples_and_reference(n):
    generator = torch.Generator().manual_seed(2)
    z, ref = (torch.randn(m, 5, dtype=torch.float64, generator=generator) for m in (n, n + 1))
    head, indices = head_of(), tuple(torch.tensor(part) for part in ([0, 1], [2, 6], [3, 4, 4], [5, 0, 1]))
    inputs = (z.requires_grad_(), ref.requires_grad_())
    assert torch.autograd.gradcheck(lambda z, ref: head(z, indices_tuple=indices, ref_emb=ref), inputs)
    labels, others = torch.arange(n) % 3, torch.arange(n + 1) % 3
    assert torch.autograd.gradcheck(lambda z, ref: head(z, labels, ref_emb=ref, ref_labels=others), inputs)


@pytest.mark.parametrize("m", [None, 7])
def test_dense_distances_are_what_autograd_makes_of_them(batch, m):
    """Weights are not symmetric, as those of a reducer need not be; ``similar`` is."""
    z, labels = batch
    head, generator = head_of(alpha=3.0), torch.Generator().manual_seed(0)
    other = None if m is None else torch.randn(m, 5, dtype=torch.float64, generator=generator).requires_grad_()
    others = labels if m is None else torch.arange(m) % 3
    similar = labels[:, None] == others[None, :]
    weights = torch.rand((2, *similar.shape), dtype=torch.float64, generator=generator)
    h = head.transform(z).detach().requires_grad_()
    L = head.L.detach().requires_grad_()
    quick = dense_distances(h, other, similar.double(), L, head.c)
    second = h if other is None else other
    views = ((h, second), *zip(*(adversarial_embeddings(x, L, head.c) for x in (h, second)), strict=True))
    real, pushed, pulled = (squared_distances(u, v) for u, v in views)
    plain = (real, torch.where(similar, pushed, pulled))
    torch.testing.assert_close(quick, plain)
    inputs = [h, L] if other is None else [h, L, other]
    found, expected = (
        torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, squares, strict=True)), inputs)
        for squares in (quick, plain)
    )
    for a, e in zip(found, expected, strict=True):
        torch.testing.assert_close(a, e)


@pytest.mark.parametrize("weighting", ["active", "uniform"])
@pytest.mark.parametrize("alpha", [0.0, 2.0])
@pytest.mark.parametrize("n_classes", [1, 2, 7, 90])
def test_the_loss_by_blocks_is_that_of_listed_pairs(n_classes, alpha, weighting):
    """300 points in any order: one block, a class larger than a block, several blocks, classes of one point."""
    generator = torch.Generator().manual_seed(n_classes)
    z = torch.randn(300, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    labels = torch.randint(n_classes, (300,), generator=generator) ** 2 - 3
    head = head_of(r=4, alpha=alpha, weighting=weighting)
    inputs = [z, head.weight, head.offset]
    similar = (labels[:, None] == labels[None, :]).fill_diagonal_(False)
    dissimilar = labels[:, None] != labels[None, :]
    h, again = head.transform(z), head.transform(z)
    loss, part = head.labelled_loss(h, h, labels, labels)
    indices = {True: similar.nonzero(as_tuple=True), False: dissimilar.nonzero(as_tuple=True)}
    losses = {kind: 0.5 * each.sum() for kind, each in head.listed_losses(again, again, indices).items()}
    torch.testing.assert_close(part, losses[True].detach())
    torch.testing.assert_close(loss, losses[True] + losses[False])
    found, expected = (torch.autograd.grad(value, inputs) for value in (loss, losses[True] + losses[False]))
    for a, e in zip(found, expected, strict=True):
        torch.testing.assert_close(a, e)


def test_active_pairs_share_the_weight_of_their_kind(batch):
    """The plain restatement, with weights from the pairs on the wrong side; forces of the two kinds are equal."""
    z, labels = batch
    head = head_of(alpha=2.0, weighting="active")
    plain = Plain(head)
    total = 0.0
    for kind in (True, False):
        pairs = [(a, b) for a, b, similar in all_pairs(z.numpy(), labels.numpy()) if similar is kind]
        x = (1 if kind else -1) * (np.array([plain.squares(a, b, kind) for a, b in pairs]) - plain.b)
        wrong = (1 / (1 + np.exp(-x))).sum(axis=0)
        assert (wrong > 1).all()
        total += 0.5 * ((softplus(x).sum(axis=0) / wrong) @ [1.0, plain.alpha]) / (1 + plain.alpha)
    loss = head(z, labels)
    assert loss.item() == pytest.approx(total, rel=1e-10)
    assert torch.autograd.grad(loss, head.offset)[0].item() == pytest.approx(0.0, abs=1e-12)


# --- precision ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["pair", "softmax", "margin"])
def test_single_precision_and_autocast_are_close_to_double(loss):
    generator = torch.Generator().manual_seed(3)
    z, labels = torch.randn(64, 16, generator=generator), torch.arange(8).repeat(8)
    single = AMLHead(16, 8, loss=loss)
    double = AMLHead(16, 8, loss=loss).double()
    double.load_state_dict(single.state_dict())
    expected = double(z.double(), labels).item()
    assert single(z, labels).item() == pytest.approx(expected, rel=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert single(z, labels).item() == pytest.approx(expected, rel=1e-5)
        low = single(z.bfloat16(), labels)
    assert low.dtype == torch.float32
    assert low.item() == pytest.approx(expected, rel=2e-2)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-4, 1e4, 1e15])
@pytest.mark.parametrize("loss", ["pair", "softmax", "margin"])
def test_features_of_any_size_give_finite_losses_and_gradients(size, loss):
    z = (size * torch.randn(16, 8, generator=torch.Generator().manual_seed(4))).requires_grad_()
    head = AMLHead(8, loss=loss)
    value = head(z, torch.arange(4).repeat(4))
    value.backward()
    assert torch.isfinite(value)
    assert all(torch.isfinite(t.grad).all() for t in (z, head.weight))


def test_equal_points_give_finite_gradients():
    z = torch.ones(6, 4, requires_grad=True)
    AMLHead(4)(z, torch.tensor([0, 0, 0, 1, 1, 1])).backward()
    assert torch.isfinite(z.grad).all()


def test_a_far_offset_of_unnormalised_features_costs_few_digits():
    z, labels = torch.randn(16, 4, generator=torch.Generator().manual_seed(5)), torch.arange(4).repeat(4)
    head = AMLHead(4, normalize=False)
    assert head(z + 1000.0, labels).item() == pytest.approx(head(z, labels).item(), rel=1e-3)


def test_a_nearly_singular_and_a_very_large_metric_stay_finite(batch):
    z, labels = batch[0].float(), batch[1]
    for weight in (torch.zeros(5, 5), torch.diag(torch.tensor([1e3, 1.0, 1e-3, 1e-6, 0.0]))):
        head = AMLHead(5, beta=0.01)
        with torch.no_grad():
            head.weight.copy_(weight)
        loss = head(z, labels)
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(head.weight.grad).all()


# --- batches without pairs, and bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["pair", "softmax", "margin"])
def test_batches_with_one_kind_of_pairs_or_none(loss):
    z = torch.randn(3, 4, requires_grad=True)
    head = AMLHead(4, loss=loss)
    for labels in (torch.tensor([0, 0, 0]), torch.tensor([0, 1, 2])):
        value = head(z, labels)
        value.backward()
        assert torch.isfinite(value)
        assert (value.item() == 0.0) == (loss != "pair")
    assert head(z[:1], labels[:1]).item() == 0.0
    empty = torch.tensor([], dtype=torch.long)
    assert head(z, indices_tuple=(empty, empty, empty, empty)).item() == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"out_features": 9}, "out_features=9"),
        ({"out_features": 0}, "out_features=0"),
        ({"alpha": -1.0}, "alpha=-1"),
        ({"beta": 0.0}, "beta=0"),
        ({"scale": float("nan")}, "scale=nan"),
        ({"weighting": "hard"}, "'uniform', 'active'"),
        ({"loss": "triplet"}, "'pair', 'softmax', 'margin'"),
        ({"n_similar": 0}, "n_similar=0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        AMLHead(8, **settings)


def test_bad_calls_are_named(batch):
    z, labels = batch
    head = AMLHead(5)
    with pytest.raises(ValueError, match=r"\(n, 5\)"):
        head(torch.ones(3, 4), torch.zeros(3))
    with pytest.raises(ValueError, match="nothing to learn from"):
        head(z)
    with pytest.raises(ValueError, match="ref_labels"):
        head(z, labels, ref_emb=z)
    with pytest.raises(ValueError, match=r"\+1 \(similar\) or -1"):
        head(z, torch.tensor([1, 0]), pairs=torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match=r"\(N, 2\)"):
        head(z, labels, pairs=torch.tensor([[0, 1, 2]]))
    with pytest.raises(ValueError, match="2 tensors"):
        head(z, indices_tuple=(labels, labels))
    with pytest.raises(ValueError, match="are pairs"):
        head(torch.ones(2, 3, 5), labels[:2])
