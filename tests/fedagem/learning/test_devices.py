"""Nothing is read from the device between two batches: every method's steps run on a device that has no values.

On `meta` tensors have shapes and no contents: `.item()`, `.numpy()`, `nonzero` and a mix of devices raise. A dispatch
mode counts what it does not catch. With FEDAGEM_TEST_DEVICE=cuda the same steps run on a GPU.
"""

import contextlib
import os

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.device import resolve_device
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.layers import layers_of
from fedagem.learning.learner import CurrentTask, Learner, Place
from fedagem.learning.methods import METHODS
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fot import FOT
from fedagem.learning.methods.gpm import GPM
from fedagem.learning.objective import Classification
from fedagem.learning.refinement import Reference, Refinement
from models.mnist_cnn import SmallCNN
from tests.support.small_federation import TaskData

DEVICE = torch.device(os.environ.get("FEDAGEM_TEST_DEVICE", "meta"))
BOUNDARY_FREE = {name: method for name, method in METHODS.items() if not method.needs_boundaries and name != "l2p"}
"""L2P needs a network of its own: its test is with the others of it."""
READS = {"_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select"}


class CountsReads(TorchDispatchMode):
    """Counts the operations that hand a number of the device to the host, or whose result's shape depends on one."""

    def __init__(self):
        super().__init__()
        self.reads = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        on_device = any(isinstance(value, torch.Tensor) and value.device.type == DEVICE.type for value in args)
        if on_device and (
            name in READS or (name == "_to_copy" and (kwargs or {}).get("device") == torch.device("cpu"))
        ):
            self.reads.append(name)
        return func(*args, **(kwargs or {}))


def batches(count, size=8):
    for seed in range(count):
        rng = torch.Generator().manual_seed(seed)
        x = torch.randint(0, 256, (size, 1, 28, 28), dtype=torch.uint8, generator=rng)
        yield {"x": x, "y": torch.randint(0, 10, (size,), generator=rng)}


def make_learner(device, buffer_device):
    torch.manual_seed(0)
    buffer = ReplayBuffer(100, device=buffer_device)
    return Learner(FlatModel(SmallCNN().to(device)), Classification(), buffer, torch.Generator().manual_seed(1))


def steps(learner, method, stream):
    """The loop without its end: what happens between the first batch and the last."""
    optimizer = torch.optim.SGD([learner.model.weights], lr=0.1)
    method.prepare(learner)
    # Fed-A-GEM itself looks at g_ref before the first batch: the test puts it there.
    (method.method if isinstance(method, FedAGEM) else method).begin_round(learner)
    for batch in method.batches(learner, stream):
        step = method.observe(learner, learner.to_buffer_device(batch))
        optimizer.step()
        if step.remember is not None:
            learner.buffer.add(step.remember, learner.generator)
        assert all(loss.device.type == DEVICE.type for loss in step.losses.values())
    return step


@pytest.mark.parametrize("fedagem", [False, True], ids=["plain", "fedagem"])
@pytest.mark.parametrize("name", BOUNDARY_FREE)
def test_no_method_reads_a_number_between_two_batches(name, fedagem):
    # Ideal looks for samples that it has already, which depends on their values: its buffer stays on the host.
    buffer_device = torch.device("cpu") if name == "ideal" else DEVICE
    learner = make_learner(DEVICE, buffer_device)
    method = BOUNDARY_FREE[name]()
    learner.received = {one.name: torch.ones(one.shape, device=DEVICE) for one in method.exchanges(learner.model)}
    if fedagem:
        method = FedAGEM(method)
        learner.notes["g_ref"] = reference(learner)
    with CountsReads() as counter:
        step = steps(learner, method, batches(3))
    assert counter.reads == []
    assert (step.refined is not None) == fedagem


@pytest.mark.parametrize("fedagem", [False, True], ids=["plain", "fedagem"])
@pytest.mark.parametrize("sequential", [False, True], ids=["domains", "classes"])
@pytest.mark.parametrize("method", [GPM(), FOT()], ids=["gpm", "fot"])
def test_no_step_of_a_second_task_reads_a_number(method, sequential, fedagem):
    learner = make_learner(DEVICE, DEVICE)
    learner.task = CurrentTask(1, range(5, 10) if sequential else range(10), (), sequential)
    bases = {layer.name: torch.eye(layer.inner)[:, :3] for layer in layers_of(learner.model)}
    learner.kept["bases"] = bases
    if fedagem:
        method = FedAGEM(method)
        learner.notes["g_ref"] = reference(learner)
    with CountsReads() as counter:
        steps(learner, method, batches(3))
    assert counter.reads == []


WITH_TEACHER = {name: method for name, method in METHODS.items() if method.needs_previous_model}


@pytest.mark.parametrize("fedagem", [False, True], ids=["plain", "fedagem"])
@pytest.mark.parametrize("rank", range(2))
@pytest.mark.parametrize("name", WITH_TEACHER)
def test_no_method_with_a_teacher_reads_a_number_in_its_second_task(name, rank, fedagem):
    # One of two clients of CFeD learns, the other reviews.
    learner = make_learner(DEVICE, DEVICE)
    samples = {name: torch.cat([batch[name] for batch in batches(3)]) for name in ("x", "y")}
    learner.buffer.fill(samples)
    learner.teacher = SmallCNN().to(DEVICE).requires_grad_(False).eval()
    learner.task = CurrentTask(1, range(5, 10), tuple(range(5)), sequential=True)
    learner.data = TaskData(samples, {"x": samples["x"]})
    learner.place = Place(rank, clients=2)
    learner.kept["prototypes"] = {"task": 1, "x": samples["x"].float(), "y": samples["y"]}
    method = WITH_TEACHER[name]()
    if fedagem:
        method = FedAGEM(method)
        learner.notes["g_ref"] = reference(learner)
    with CountsReads() as counter:
        step = steps(learner, method, batches(3))
    assert counter.reads == []
    assert (step.refined is not None) == fedagem


@pytest.mark.parametrize("name", [name for name in METHODS if name != "l2p"])
def test_no_method_reads_a_number_for_its_scores(name):
    """In an evaluation only the counts of right answers are read; whether a task has ended, iCaRL reads once."""
    learner = make_learner(DEVICE, DEVICE)
    learner.task = CurrentTask(1, range(5, 10), tuple(range(5)), sequential=True)
    method = METHODS[name]()
    learner.received = {one.name: torch.ones(one.shape, device=DEVICE) for one in method.exchanges(learner.model)}
    learner.notes["has_means"] = True
    learner.model.module.eval()
    (batch,) = batches(1)
    with torch.no_grad(), CountsReads() as counter:
        scores = method.scores(learner, learner.to_device({"x": batch["x"]}))
    assert counter.reads == []
    assert scores.shape == (8, 10)


def reference(learner):
    return Reference.of(torch.ones_like(learner.gradient))


@pytest.mark.parametrize("how", ["project", "project_and_scale", "rotate", "average"])
@pytest.mark.parametrize("when", ["conflict", "always"])
def test_no_rule_of_refinement_reads_a_number(how, when):
    learner = make_learner(DEVICE, DEVICE)
    with CountsReads() as counter:
        Refinement(how=how, when=when, rate=0.9)(learner.gradient, reference(learner), learner.generator)
    assert counter.reads == []


def test_the_counter_counts():
    """A loop that reads a loss in every batch, as a plain one would, is noticed."""
    total = make_learner(DEVICE, DEVICE).gradient.sum()
    with CountsReads() as counter, contextlib.suppress(RuntimeError):
        float(total)
    assert counter.reads == ["_local_scalar_dense"]


@pytest.mark.parametrize(
    ("wanted", "override", "expected"),
    [
        ("cpu", None, "cpu"),
        ("cuda:1", "cpu", "cpu"),
        ("auto", None, "cuda" if torch.cuda.is_available() else "cpu"),
        ("auto", "auto", "cuda" if torch.cuda.is_available() else "cpu"),
    ],
)
def test_each_node_decides_where_it_computes(wanted, override, expected, monkeypatch):
    monkeypatch.delenv("FEDAGEM_DEVICE", raising=False)
    if override:
        monkeypatch.setenv("FEDAGEM_DEVICE", override)
    assert resolve_device(wanted).type == expected


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("cuda:99", r"FEDAGEM_DEVICE is cuda:99, but this machine has \w+ CUDA devices?: use auto"),
        ("gpu", r"FEDAGEM_DEVICE is 'gpu'; valid values: auto, cpu, cuda, cuda:N\."),
    ],
)
def test_a_device_that_is_not_there_is_refused(override, sentence, monkeypatch):
    monkeypatch.setenv("FEDAGEM_DEVICE", override)
    with pytest.raises(PlanError, match=sentence):
        resolve_device("auto")
