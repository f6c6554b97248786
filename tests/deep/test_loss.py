"""AMLLoss in the training loops of pytorch-metric-learning."""

import pytest
import torch
from torch import nn

from advmetric.deep import AMLHead, AMLLoss, CrossBatchMemory

pml = pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers  # noqa: E402
from pytorch_metric_learning.utils import loss_and_miner_utils  # noqa: E402


@pytest.fixture
def task():
    """Four classes that one direction of ten tells apart, and noise nine times as large."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(4).repeat(16)
    points = 3.0 * torch.randn(64, 10, generator=generator)
    points[:, 0] = labels + 0.1 * torch.randn(64, generator=generator)
    return points, labels


def train(loss, task, *, miner=None, steps=60, reference=None):
    """The loop of the library's documentation."""
    torch.manual_seed(0)
    points, labels = task
    model = nn.Linear(10, 6)
    optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=0.03)
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        embeddings = model(points)
        more = {} if reference is None else {"ref_emb": model(reference[0]), "ref_labels": reference[1]}
        pairs = miner(embeddings, labels, *more.values()) if miner else None
        value = loss(embeddings, labels, pairs, **more)
        value.backward()
        optimizer.step()
        values.append(value.item())
    return model, values


def test_it_is_a_loss_of_the_library():
    assert isinstance(AMLLoss(4), losses.BaseMetricLossFunction)


def test_its_value_is_that_of_the_head(task):
    loss, head = AMLLoss(10, 4, alpha=2.0, beta=3.0), AMLHead(10, 4, alpha=2.0, beta=3.0)
    head.load_state_dict(loss.head.state_dict())
    assert loss(*task).item() == pytest.approx(head(*task).item(), rel=1e-5)
    few = loss_and_miner_utils.get_random_triplet_indices(task[1], t_per_anchor=1)
    assert loss(*task, few).item() == pytest.approx(head(task[0], indices_tuple=few).item(), rel=1e-5)
    assert loss(task[0], indices_tuple=few).item() == pytest.approx(loss(*task, few).item())


@pytest.mark.parametrize("reference", [False, True])
def test_means_without_lists_of_pairs_are_the_means_of_the_lists(task, reference):
    """A mean that is no MeanReducer is given the pairs one by one."""

    class Mean(reducers.MeanReducer):
        pass

    points, labels = task
    more = {"ref_emb": points[40:] + 0.1, "ref_labels": labels[40:]} if reference else {}
    found = []
    for reducer in (None, Mean()):
        torch.manual_seed(1)
        loss, z = AMLLoss(10, 7, reducer=reducer), points.clone().requires_grad_()
        value = loss(z, labels, **more)
        value.backward()
        found.append([value, z.grad, loss.head.weight.grad, loss.head.offset.grad])
    for quick, listed in zip(*found, strict=True):
        torch.testing.assert_close(quick, listed, rtol=1e-4, atol=1e-6)


def test_the_two_kinds_of_pairs_are_reported_apart(task):
    loss = AMLLoss(10)
    seen = {}
    loss.reducer.sub_loss_reduction = lambda values, *_: seen.update(values=values.detach()) or values.sum()
    loss(*task)
    each = AMLLoss(10, reducer=reducers.DoNothingReducer())(*task)
    expected = [each[name]["losses"].mean().item() for name in ("pos_loss", "neg_loss")]
    assert seen["values"].tolist() == pytest.approx(expected, rel=1e-4)


def test_a_loop_learns(task):
    _, values = train(AMLLoss(6), task)
    assert values[-1] < 0.7 * values[0]


@pytest.mark.parametrize(
    "miner",
    [miners.MultiSimilarityMiner(), miners.TripletMarginMiner(type_of_triplets="semihard"), miners.PairMarginMiner()],
    ids=lambda miner: type(miner).__name__,
)
def test_a_loop_with_a_miner(task, miner):
    points, labels = task
    loss = AMLLoss(6)
    torch.manual_seed(0)
    before = loss(nn.Linear(10, 6)(points), labels).item()  # the start of the loop: same seed
    model, _ = train(loss, task, miner=miner)
    assert loss(model(points), labels).item() < 0.9 * before


@pytest.mark.parametrize(
    "reducer",
    [
        reducers.MeanReducer(),
        reducers.AvgNonZeroReducer(),
        reducers.ThresholdReducer(low=0.3),
        reducers.ClassWeightedReducer(torch.tensor([1.0, 2.0, 1.0, 2.0])),
        reducers.PerAnchorReducer(),
        reducers.MultipleReducers({"pos_loss": reducers.MeanReducer(), "neg_loss": reducers.SumReducer()}),
    ],
    ids=lambda reducer: type(reducer).__name__,
)
def test_reducers(task, reducer):
    value = AMLLoss(10, reducer=reducer)(*task)
    assert value.ndim == 0
    assert torch.isfinite(value)


def test_losses_are_handed_out_pair_by_pair(task):
    out = AMLLoss(10, reducer=reducers.DoNothingReducer())(*task)
    assert set(out) == {"pos_loss", "neg_loss"}
    assert out["pos_loss"]["losses"].shape == out["pos_loss"]["indices"][0].shape == (64 * 15,)
    assert out["neg_loss"]["reduction_type"] == "neg_pair"


def test_reference_embeddings(task):
    points, labels = task
    loss = AMLLoss(6)
    _, values = train(loss, (points[:32], labels[:32]), reference=(points[32:], labels[32:]))
    assert values[-1] < 0.8 * values[0]


@pytest.mark.parametrize("miner", [None, miners.MultiSimilarityMiner()], ids=["all", "mined"])
def test_cross_batch_memory(task, miner):
    torch.manual_seed(0)
    points, labels = task
    model, memory = nn.Linear(10, 6), CrossBatchMemory(AMLLoss(6), 6, memory_size=48, miner=miner)
    optimizer = torch.optim.Adam([*model.parameters(), *memory.parameters()], lr=0.02)
    values = []
    for step in range(90):
        rows = torch.arange(64).roll(-16 * step)[:16]
        optimizer.zero_grad()
        value = memory(model(points[rows]), labels[rows])
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert sum(values[-8:]) < sum(values[:8])


def test_regularizers_of_embeddings_count(task):
    plain = AMLLoss(10)
    regular = AMLLoss(10, embedding_regularizer=regularizers.LpRegularizer(), embedding_reg_weight=0.5)
    norms = task[0].norm(dim=1).mean().item()
    assert regular(*task).item() == pytest.approx(plain(*task).item() + 0.5 * norms, rel=1e-4)


def test_batches_without_pairs_cost_nothing():
    z = torch.randn(1, 4, requires_grad=True)
    value = AMLLoss(4)(z, torch.tensor([0]))
    value.backward()
    assert value.item() == 0.0


def test_low_precision_embeddings_keep_their_type(task):
    value = AMLLoss(10)(task[0].bfloat16(), task[1])
    assert value.dtype == torch.bfloat16
    assert value.item() == pytest.approx(AMLLoss(10)(*task).item(), rel=2e-2)


def test_the_distance_says_whether_to_normalise(task):
    assert not AMLLoss(10, distance=distances.LpDistance(normalize_embeddings=False)).head.normalize
    with pytest.raises(ValueError, match="LpDistance with p=2"):
        AMLLoss(10, distance=distances.CosineSimilarity())


def test_it_is_found_in_a_state_dict(task):
    loss = AMLLoss(10, 3)
    other = AMLLoss(10, 3)
    other.load_state_dict(loss.state_dict())
    assert loss(*task).item() == other(*task).item()
