"""The detector inside the project's one training loop: every method, the buffer, BatchNorm, and a loss gone wrong."""

import pytest
import torch

from fedagem.aggregation.ring import MODEL_BOUND, Accumulator, Encoding
from fedagem.detection.augment import mirror_head
from fedagem.detection.objective import DetectionObjective
from fedagem.errors import NonFiniteLossError, PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.agem import AGEM
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.derpp import DERpp
from fedagem.learning.methods.er import ER
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.fedprox import FedProx
from fedagem.learning.methods.ideal import Ideal
from models.tiny_yolo import TinyYolo, TinyYoloConfig

CONFIG = TinyYoloConfig(classes=("car", "sign"), anchors=((0.5, 0.5), (2.0, 1.0)), input_size=(96, 64), width=0.05)
LIGHT = {"flip": 0.5, "zoom": 0.0, "colour": 0.2}


def batches(count, seed=0, size=4):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        boxes = torch.full((size, 6, 5), -1.0)
        boxes[:, :2, 0] = torch.randint(2, (size, 2), generator=generator).float()
        boxes[:, :2, 1:] = 0.2 + 0.5 * torch.rand((size, 2, 4), generator=generator)
        yield {
            "x": torch.randint(256, (size, 3, 64, 96), dtype=torch.uint8, generator=generator),
            "boxes": boxes,
        }


def learner(seed=1, capacity=100, augmentation=None):
    torch.manual_seed(seed)
    model = FlatModel(TinyYolo.of(CONFIG))
    objective = DetectionObjective(anchors=CONFIG.anchors, augmentation=augmentation or LIGHT)
    return Learner(model, objective, ReplayBuffer(capacity), torch.Generator().manual_seed(seed))


def train(client, method, count, *, g_ref=None, seed=0, rate=1e-3):
    optimizer = torch.optim.SGD([client.model.weights], lr=rate)
    if g_ref is not None:
        client.received, method = {"g_ref": g_ref}, FedAGEM(method)
    return client_update(client, batches(count, seed), method, optimizer)


def buffer_gradient(client, count):
    published = FedAGEM(FedAvg(), samples=count).buffer_gradient(client) or {}
    return published["g_ref"]


METHODS = {
    "fedavg": FedAvg(),
    "agem": AGEM(replay_batch=4),
    "er": ER(replay_batch=4),
    "der": DER(replay_batch=4),
    "derpp": DERpp(replay_batch=4),
    "fedprox": FedProx(),
    "ideal": Ideal(replay_batch=4),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("fedagem", [False, True])
def test_every_method_learns_detection_with_and_without_g_ref(method, fedagem):
    client = learner()
    train(client, method, 4)
    g_ref = buffer_gradient(client, 8) if fedagem else None
    before = client.model.weights.detach().clone()
    report = train(client, method, 4, g_ref=None if g_ref is None else -g_ref, seed=2)
    assert report.batches == 4
    assert {"box", "confidence", "classification"} <= set(report.losses())
    assert (report.refined > 0) == fedagem, "a g_ref against the gradient must be noticed"
    assert not torch.equal(client.model.weights, before)
    assert bool(torch.isfinite(client.model.weights).all())
    assert len(client.buffer) == 32


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_same_seed_same_weights(method):
    weights = []
    for _ in range(2):
        client = learner()
        train(client, method, 3)
        weights.append(client.model.weights.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_der_stores_the_frames_as_they_came_with_logits_that_fit_them(flip):
    """Where the view was mirrored, the stored map is the view's map mirrored back."""
    client = learner(augmentation={"flip": flip, "zoom": 0.0, "colour": 0.0})
    client.model.module.train()
    (batch,) = batches(1)
    given = {name: values.clone() for name, values in batch.items()}
    remembered = DER(replay_batch=4).observe(client, batch).remember or {}
    assert all(torch.equal(remembered[name], given[name]) for name in given)
    head = client.logits({"x": batch["x"].flip(3) if flip else batch["x"]}).detach()
    expected = mirror_head(head, len(CONFIG.anchors)) if flip else head
    assert torch.equal(remembered["logits"], expected.half())


def test_the_buffer_gradient_leaves_batch_statistics_untouched():
    client = learner()
    train(client, FedAvg(), 3)
    before = {name: value.clone() for name, value in client.model.state_dict().items()}
    assert buffer_gradient(client, 8) is not None
    after = client.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_training_moves_batch_statistics_and_they_are_part_of_the_model():
    client = learner()
    before = {name: value.clone() for name, value in client.model.state_dict().items()}
    train(client, FedAvg(), 2)
    moved = [n for n, v in client.model.state_dict().items() if "running_" in n and not torch.equal(v, before[n])]
    assert len(moved) == 16


def mean_of(arrays):
    total = Accumulator(arrays[0].shape, arrays[0].dtype, Encoding.of(arrays[0].dtype, MODEL_BOUND, len(arrays)))
    for array in arrays:
        total.add(array)
    return total.decode(len(arrays))


def test_a_federation_averages_batch_statistics_like_weights():
    """With the aggregator's own sums; the counter stays a whole number, and evaluation depends on no batch."""
    clients = [learner(seed=1), learner(seed=1)]
    for number, client in enumerate(clients):
        train(client, FedAvg(), 2 + number, seed=number)
    states = [client.model.state_dict() for client in clients]
    average = {name: torch.from_numpy(mean_of([state[name].numpy() for state in states])) for name in states[0]}
    mean = "backbone.0.1.running_mean"
    assert torch.allclose(average[mean], (states[0][mean] + states[1][mean]) / 2)
    assert average["backbone.0.1.num_batches_tracked"].dtype == torch.int64
    model = TinyYolo.of(CONFIG)
    model.load_state_dict(average)
    frames = next(batches(1, seed=9))
    with torch.no_grad():
        together = clients[0].objective.logits(model.eval(), frames)
        alone = clients[0].objective.logits(model, {"x": frames["x"][:1]})
    assert torch.allclose(together[:1], alone, atol=1e-4)


def test_a_loss_that_is_not_finite_stops_the_round_with_a_sentence():
    client = learner()
    bad = next(batches(1))
    bad["boxes"][0, 0, 3] = float("inf")
    optimizer = torch.optim.SGD([client.model.weights], lr=1e-3)
    with pytest.raises(NonFiniteLossError, match="not finite"):
        client_update(client, [bad], FedAvg(), optimizer)


def test_ideal_keeps_everything_or_says_what_to_change():
    client = learner(capacity=10)
    with pytest.raises(PlanError, match=r"capacity of 10 is full: raise task_runner\.settings\.buffer\.capacity"):
        train(client, Ideal(replay_batch=4), 3)


def test_ideal_keeps_a_sample_once_however_often_it_is_seen():
    client = learner(capacity=13)
    train(client, Ideal(replay_batch=4), 3)
    report = train(client, Ideal(replay_batch=4), 3)
    assert report.batches == 3
    assert len(client.buffer) == client.buffer.seen == 12
    (new,) = batches(1, seed=5)
    new["x"][1:] = client.buffer.contents()["x"][:3]
    client_update(client, [new], Ideal(replay_batch=4), torch.optim.SGD([client.model.weights], lr=1e-3))
    assert torch.equal(client.buffer.contents()["x"][12], new["x"][0])


def test_ideal_samples_old_and_new_alike():
    """Every sample seen so far is equally likely: mark each batch by its own grey value and count."""
    client = learner(capacity=400)
    method = Ideal(replay_batch=16)
    counts = torch.zeros(50)
    for number in range(50):
        (batch,) = batches(1, seed=number)
        batch["x"].fill_(number)
        client.buffer.add({**batch, "fingerprint": torch.zeros(4)}, client.generator)
    (batch,) = batches(1, seed=99)
    batch["x"].fill_(0)
    for _ in range(300):
        sample = method._from_everything(client, {**batch, "fingerprint": torch.zeros(4)}, 20)
        assert len(sample["x"]) == 20
        counts += torch.bincount(sample["x"][:, 0, 0, 0].long(), minlength=50)
    expected = torch.full((50,), 300 * 20 * 4 / 204)
    expected[0] *= 2
    assert bool(((counts - expected).abs() < 6 * expected.sqrt()).all())


def test_the_buffer_of_the_paper_fits_in_100_megabytes():
    config = TinyYoloConfig(classes=tuple("abcde"), input_size=(416, 256))
    buffer = ReplayBuffer(200)
    sample = {
        "x": torch.zeros((10, 3, 256, 416), dtype=torch.uint8),
        "boxes": torch.zeros((10, 64, 5)),
        "logits": torch.zeros((10, config.head_channels, *config.grid), dtype=torch.float16),
    }
    for _ in range(20):
        buffer.add(sample, torch.Generator())
    assert len(buffer) == 200
    assert sum(values.nbytes for values in buffer.contents().values()) < 100e6


def test_objective_and_model_must_agree_on_the_anchors():
    objective = DetectionObjective(anchors=[[1.0, 1.0]])
    with pytest.raises(PlanError, match="give both the same in the plan"):
        objective.logits(TinyYolo.of(CONFIG), next(batches(1)))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [({"loss": {"boxes": 1.0}}, r"loss has no setting 'boxes'"), ({"augmentation": {"flips": 1}}, "flips")],
)
def test_unknown_settings_are_refused(settings, complaint):
    with pytest.raises(PlanError, match=complaint):
        DetectionObjective(anchors=CONFIG.anchors, **settings)
