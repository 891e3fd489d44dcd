"""FOT: sketches of all clients' inputs, the server's projection, and what it is worth on permuted digits."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedagem.files import read_state, write_state
from fedagem.learning.layers import layers_of, visit_inputs
from fedagem.learning.learner import CurrentTask
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.fot import FOT, own_task
from models.resnet_cifar import resnet18_cifar
from tests.support.permuted_federation import SmallFederation, learn_permuted_digits


def samples(seed, count=48, dimension=5, spread=2):
    """Points of a subspace that all clients of a task share, and two of four classes."""
    generator = torch.Generator().manual_seed(seed)
    plane = torch.randn(dimension, 20, generator=torch.Generator().manual_seed(spread))
    x = torch.randn(count, dimension, generator=generator) @ plane
    return {"x": x, "y": torch.randint(4, (count,), generator=generator)}


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def task(index, sequential=False, classes=range(4)):
    return CurrentTask(index, classes, (), sequential)


def federate(method, tasks=2, network=None, order=None, sequential=False, **settings):
    """Three clients that learn some tasks."""
    federation = SmallFederation(method, network or mlp(), **settings)
    for index in range(tasks):
        federation.begin_task(
            task(index, sequential), [samples(10 * index + rank, spread=100 + index) for rank in range(3)]
        )
        for _ in range(2):
            federation.round(order)
        federation.end_task(order)
    return federation


def same_bits(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(np.asarray(array), np.asarray(other[name]), err_msg=name)


# What clients send


def test_the_sum_of_sketches_is_the_sketch_of_all_clients_inputs_together():
    federation = SmallFederation(FOT(sketch=7), mlp())
    federation.begin_task(task(0), [samples(rank, count=40 + rank) for rank in range(3)])
    summed = federation.added([federation.method.end_task(federation.learner(rank, "end")) for rank in range(3)])
    inputs: dict[str, list[torch.Tensor]] = {layer.name: [] for layer in layers_of(federation.model)}
    omegas: dict[str, list[torch.Tensor]] = {layer.name: [] for layer in layers_of(federation.model)}
    for rank in range(3):
        learner = federation.learner(rank, "end")

        def note(layer, columns, learner=learner):
            inputs[layer.name].append(columns)
            omegas[layer.name].append(torch.randn(columns.shape[1], 7, generator=learner.generator))

        visit_inputs(learner, layers_of(federation.model), federation.samples[rank], note)
    for layer in layers_of(federation.model):
        joined = torch.cat(inputs[layer.name], dim=1).double() @ torch.cat(omegas[layer.name]).double()
        assert joined.shape == (layer.inner, 7)
        scale = float(joined.abs().max())
        np.testing.assert_allclose(summed[f"sketch/{layer.name}"], joined, atol=1e-5 * scale)


def test_a_repeated_end_of_a_task_sends_the_same_and_another_round_something_else():
    federation = SmallFederation(FOT(), mlp())
    federation.begin_task(task(0), [samples(rank) for rank in range(2)])
    once, again = (federation.method.end_task(federation.learner(0, "end")) for _ in range(2))
    assert all(torch.equal(once[name], again[name]) for name in once)
    other = federation.method.end_task(federation.learner(1, "end"))
    federation.round_number += 1
    later = federation.method.end_task(federation.learner(0, "end"))
    assert not any(torch.equal(once[name], one[name]) for one in (other, later) for name in once)


def test_a_sketch_is_never_wider_than_the_layer_and_the_plan_say():
    exchanges = {exchange.name: exchange for exchange in FOT(sketch=18).exchanges(SmallFederation(FOT(), mlp()).model)}
    shapes = {name: exchange.shape for name, exchange in exchanges.items()}
    assert shapes == {"sketch/0.weight": (21, 18), "sketch/2.weight": (17, 17), "sketch/4.weight": (17, 17)}
    assert all((exchange.stage, exchange.combine) == ("end_task", "sum") for exchange in exchanges.values())


# What they train


def test_only_the_classes_of_a_samples_own_task_compete():
    assert own_task(torch.tensor([0, 1, 5, 2]), range(4, 6), 6).int().tolist() == [
        [1, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1],
        [0, 0, 1, 1, 0, 0],
    ]


def test_the_loss_is_that_of_one_head_for_each_task():
    """In training and for g_ref, whose samples are of all tasks so far."""
    federation = SmallFederation(FOT(), mlp())
    federation.begin_task(task(1, sequential=True, classes=range(2, 4)), [samples(1)])
    learner, view = federation.learner(0, "train"), samples(2)
    losses = federation.method.reference(learner, view)
    learner.backward(losses)
    logits = federation.network(view["x"])
    old = view["y"] < 2
    terms = [
        functional.cross_entropy(logits[old, :2], view["y"][old], reduction="sum"),
        functional.cross_entropy(logits[~old, 2:], view["y"][~old] - 2, reduction="sum"),
    ]
    loss = torch.stack(terms).sum() / len(view["y"])
    plain = torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(federation.network.parameters()))])
    torch.testing.assert_close(learner.gradient, plain, rtol=1e-4, atol=1e-6)
    assert float(losses["classification"].detach()) == pytest.approx(float(loss.detach()), rel=1e-5)
    step = federation.method.observe(learner, view)
    torch.testing.assert_close(learner.gradient, plain, rtol=1e-4, atol=1e-6)
    assert step.remember is view


# What the server does


def matrix_of(name, model):
    bias = name.replace("weight", "bias")
    return np.concatenate([model[name].reshape(len(model[name]), -1), model[bias][:, None]], axis=1)


def test_averaged_updates_stay_out_of_the_subspace():
    federation = federate(FOT(threshold=0.9))
    federation.begin_task(task(2), [samples(50 + rank, spread=200) for rank in range(3)])
    old = dict(federation.weights)
    federation.round()
    assert federation.server.bases.keys() == {"0.weight", "2.weight", "4.weight"}
    for name, basis in federation.server.bases.items():
        assert 0 < basis.shape[1] < len(basis)
        assert (basis.T @ basis - torch.eye(basis.shape[1])).abs().max() < 1e-6
        moved = torch.from_numpy(matrix_of(name, federation.weights) - matrix_of(name, old))
        assert moved.norm() > 1e-3
        assert (moved @ basis).norm() <= 1e-5 * moved.norm()


def test_the_subspace_is_that_of_all_inputs_in_one_place():
    """Of low rank, so that there is no doubt which directions matter: the largest angle between the two is small."""
    federation = SmallFederation(FOT(threshold=0.9999), nn.Linear(20, 4, bias=False))
    clients = [samples(rank, dimension=4, spread=9) for rank in range(3)]
    federation.begin_task(task(0), clients)
    federation.end_task()
    together = torch.cat([client["x"] for client in clients]).T
    central = torch.linalg.svd(together, full_matrices=False).U[:, :4]
    basis = federation.server.bases["weight"]
    assert basis.shape == (20, 4)
    cosines = torch.linalg.svdvals(basis.double().T @ central.double())
    assert torch.rad2deg(torch.acos(cosines.clamp(max=1)).max()) < 0.1


def test_the_order_of_clients_does_not_matter():
    one, other = (federate(FOT(), order=order) for order in ([0, 1, 2], [2, 0, 1]))
    same_bits(one.server.bases, other.server.bases)
    same_bits(one.weights, other.weights)


@pytest.mark.parametrize("wrap", [lambda method: method, FedAGEM], ids=["plain", "fedagem"])
def test_a_threshold_of_zero_is_fedavg_to_the_bit(wrap):
    off, plain = (federate(wrap(method), tasks=3, capacity=20) for method in (FOT(threshold=0.0), FedAvg()))
    assert off.server.bases == {}
    same_bits(off.weights, plain.weights)


def test_the_head_of_tasks_with_classes_of_their_own_is_the_average_itself():
    federation = federate(FOT(threshold=0.9), sequential=True)
    assert federation.server.bases.keys() == {"0.weight", "2.weight"}
    averaged = {name: array + np.float32(0.1) for name, array in federation.weights.items()}
    new = federation.server.step(federation.weights, averaged)
    same_bits(
        {name: new[name] for name in new if name[0] == "4"}, {name: averaged[name] for name in new if name[0] == "4"}
    )
    assert not any((new[name] == averaged[name]).all() for name in new if name[0] != "4")


def test_thresholds_grow_with_the_tasks():
    few, many = (federate(FOT(threshold=0.5, threshold_growth=growth), tasks=3).server.bases for growth in (0.0, 0.2))
    assert sum(basis.shape[1] for basis in few.values()) < sum(basis.shape[1] for basis in many.values())


def test_batch_norm_is_the_old_one_after_the_first_task():
    """The server sees to it: a client may send something else."""
    network = resnet18_cifar(width=4)
    federation = SmallFederation(FOT(), network)
    norms = {f"{path}." for path, module in network.named_modules() if isinstance(module, nn.BatchNorm2d)}
    old, averaged = (
        federation.weights,
        {name: array + np.array(1, array.dtype) for name, array in federation.weights.items()},
    )
    same_bits(federation.server.step(old, averaged), averaged)
    federation.server.end_task(old)
    after = federation.server.step(old, averaged)
    for name, array in after.items():
        np.testing.assert_array_equal(array, (old if name.startswith(tuple(norms)) else averaged)[name], err_msg=name)
    assert len([name for name in after if name.startswith(tuple(norms))]) == 20 * 5


def test_a_server_that_starts_again_has_the_same_subspaces(tmp_path):
    federation = federate(FOT())
    state = federation.server.state_dict()
    write_state(
        tmp_path / "state", {**state, "bases": {name: torch.from_numpy(a) for name, a in state["bases"].items()}}
    )
    restarted = FOT().server_side(list(federation.exchanges.values()))
    read = read_state(tmp_path / "state")
    restarted.load_state_dict({**read, "bases": {name: tensor.numpy() for name, tensor in read["bases"].items()}})
    original = federation.server
    same_bits(restarted.bases, original.bases)
    ranks = {name: basis.shape[1] for name, basis in original.bases.items()}
    federation.begin_task(task(2), [samples(70 + rank) for rank in range(3)])
    old = dict(federation.weights)
    for server in (original, restarted):
        federation.weights, federation.server, federation.round_number = dict(old), server, 4
        federation.round()
        federation.end_task()
    same_bits(restarted.bases, original.bases)
    assert sum(basis.shape[1] for basis in restarted.bases.values()) > sum(ranks.values())


def test_three_clients_remember_permuted_digits_that_fedavg_forgets():
    """10 points more on the first two of three permutations, for at most 8 less on the last."""
    plain, protected = (learn_permuted_digits(method, clients=3, rounds=10) for method in (FedAvg(), FOT()))
    assert protected[0] + protected[1] >= plain[0] + plain[1] + 2 * 0.1, (plain, protected)
    assert protected[2] >= plain[2] - 0.08, (plain, protected)
