"""L2P: prompts by cosine for each image, a frozen transformer that never travels, and nothing else trained."""

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.methods.fedavg import FedAvg
from fedagem.learning.methods.l2p import L2P
from fedagem.learning.objective import Classification
from fedagem.learning.trainer import Component
from models.mnist_cnn import SmallCNN
from models.prompted_vit import PromptedViT
from tests.fedagem.learning.test_devices import DEVICE, CountsReads, steps

timm = pytest.importorskip("timm", reason="L2P's transformer is timm's: install the extra vit")
TINY = {
    "weights": "random",
    "image_size": 32,
    "patch_size": 8,
    "dimension": 32,
    "depth": 2,
    "heads": 2,
    "pool": 4,
    "prompt_length": 2,
    "chosen": 2,
}


def batches(count, size=8, seed=0):
    for number in range(count):
        rng = torch.Generator().manual_seed(100 * seed + number)
        y = torch.randint(0, 2, (size,), generator=rng)
        x = torch.randint(0, 120, (size, 3, 32, 32), generator=rng) + 130 * y[:, None, None, None]
        yield {"x": x.to(torch.uint8), "y": y}


def make_learner(**changes):
    torch.manual_seed(0)
    model = FlatModel(PromptedViT(**{**TINY, **changes}))
    return Learner(model, Classification(), ReplayBuffer(50), torch.Generator().manual_seed(1))


def transformer_bytes(network):
    return b"".join(tensor.numpy().tobytes() for tensor in network.transformer.state_dict().values())


def test_each_image_gets_the_prompts_whose_keys_are_nearest_to_it():
    network = make_learner().model.module
    images = torch.rand(6, 3, 32, 32)
    network(images)
    view = functional.normalize(network.transformer.forward_features(images)[:, 0], dim=1)
    cosines = view @ functional.normalize(network.keys, dim=1).T
    expected = cosines.sort(dim=1, descending=True).values[:, :2].sum(dim=1)
    torch.testing.assert_close(network.similarity, expected)


def test_what_the_transformer_sees_are_class_token_prompts_and_patches():
    """Against timm's own blocks, with the prompts put in by hand."""
    network = make_learner(pool=2).model.module
    images = torch.rand(3, 3, 32, 32)
    vit = network.transformer
    cosines = functional.normalize(vit.forward_features(images)[:, 0], dim=1) @ functional.normalize(network.keys).T
    prompts = network.prompts[cosines.argsort(dim=1, descending=True)].flatten(1, 2)
    tokens = vit._pos_embed(vit.patch_embed(images))
    told = torch.cat([tokens[:, :1], prompts + vit.pos_embed[:, :1], tokens[:, 1:]], dim=1)
    expected = network.head(vit.norm(vit.blocks(told))[:, 1:5].mean(dim=1))
    torch.testing.assert_close(network(images), expected)


def test_the_choice_depends_on_the_image_and_not_on_its_batch():
    network = make_learner().model.module
    images = torch.rand(5, 3, 32, 32)
    together = network(images)
    torch.testing.assert_close(torch.cat([network(image[None]) for image in images]), together)


def test_prompts_that_nobody_chose_have_no_gradient_and_keys_move_by_the_pull_alone():
    learner = make_learner()
    (batch,) = batches(1, size=1)
    L2P(pull=0.0).observe(learner, batch)
    windows = learner.model.windows
    assert not learner.gradient[windows["keys"]].any()
    touched = learner.gradient[windows["prompts"]].view(4, -1).abs().sum(dim=1) > 0
    assert touched.sum() == 2
    L2P(pull=0.5).observe(learner, batch)
    moved = learner.gradient[windows["keys"]].view(4, -1).abs().sum(dim=1) > 0
    assert torch.equal(moved, touched)


def test_the_gradient_is_that_of_both_terms():
    learner = make_learner()
    (batch,) = batches(1)
    step = L2P(pull=0.3).observe(learner, batch)
    network = learner.model.module
    loss = functional.cross_entropy(network(batch["x"] / 255), batch["y"]) - 0.3 * network.similarity.mean()
    expected = torch.autograd.grad(loss, [p for p in network.parameters() if p.requires_grad])
    torch.testing.assert_close(learner.gradient, torch.cat([g.reshape(-1) for g in expected]), rtol=1e-4, atol=1e-6)
    assert step.losses.keys() == {"classification", "pull"}


def test_only_prompts_keys_and_head_are_trained_and_travel():
    learner = make_learner()
    before = transformer_bytes(learner.model.module)
    names = {"prompts", "keys", "head.weight", "head.bias", "backbone"}
    assert learner.model.arrays().keys() == names
    assert learner.model.size == 4 * 2 * 32 + 4 * 32 + 32 * 10 + 10
    method = FedAGEM(L2P())
    learner.received = {"g_ref": torch.randn(learner.model.size, generator=torch.Generator().manual_seed(3))}
    report = client_update(learner, batches(4), method, torch.optim.Adam([learner.model.weights], lr=0.01))
    assert 0 < report.refined <= 4
    assert transformer_bytes(learner.model.module) == before


def test_prompts_keys_and_head_are_enough_to_learn_a_few_images(tmp_path):
    """A random transformer shows little of an image: with larger weights, it shows enough."""
    source = PromptedViT(**TINY).transformer.state_dict()
    save_file({n: t * 10 if t.ndim > 1 else t for n, t in source.items()}, tmp_path / "vit.safetensors")
    learner = make_learner(weights=str(tmp_path / "vit.safetensors"), classes=2)
    optimizer = torch.optim.Adam([learner.model.weights], lr=0.02)
    reports = [client_update(learner, [*batches(2)] * 20, L2P(), optimizer).losses() for _ in range(3)]
    assert reports[-1]["classification"] < reports[0]["classification"] / 2
    assert reports[-1]["pull"] < reports[0]["pull"]


def test_a_transformer_of_another_file_is_refused(tmp_path):
    learner, other = make_learner(), PromptedViT(**TINY)
    weights = {name: tensor + 1 for name, tensor in other.transformer.state_dict().items()}
    save_file(weights, tmp_path / "other.safetensors")
    stranger = make_learner(weights=str(tmp_path / "other.safetensors"))
    stranger.model.load_arrays(learner.model.arrays())
    with pytest.raises(PlanError, match=r"was learned with another transformer than .*other\.safetensors"):
        L2P().prepare(stranger)
    learner.model.load_arrays(learner.model.arrays())
    L2P().prepare(learner)


def test_a_file_of_the_transformer_is_read(tmp_path):
    source = PromptedViT(**TINY).transformer.state_dict()
    weights = {name: tensor + 1 for name, tensor in source.items()}
    save_file({**weights, "head.weight": torch.zeros(3)}, tmp_path / "vit.safetensors")
    network = PromptedViT(**{**TINY, "weights": str(tmp_path / "vit.safetensors")})
    assert all(torch.equal(network.transformer.state_dict()[name], tensor) for name, tensor in weights.items())


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.safetensors", None, "missing.safetensors does not exist: put model.safetensors of timm's"),
        ("junk.safetensors", b"junk", "junk.safetensors is not a file of weights that can be read"),
        ("junk.npz", b"junk", "junk.npz is not a file of weights that can be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(tmp_path, name, content, sentence):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    component = Component(
        template="models.prompted_vit.PromptedViT", settings={**TINY, "weights": str(tmp_path / name)}
    )
    with pytest.raises(PlanError, match=sentence):
        component.build("task_runner.settings.model")


def test_weights_of_another_transformer_are_refused(tmp_path):
    save_file({"cls_token": torch.zeros(1, 1, 8)}, tmp_path / "small.safetensors")
    with pytest.raises(ValueError, match="holds the weights of another transformer than the plan describes"):
        PromptedViT(**{**TINY, "weights": str(tmp_path / "small.safetensors")})


def test_more_prompts_than_there_are_cannot_be_chosen():
    with pytest.raises(ValueError, match="chosen is 5, but the pool has only 4 prompts"):
        PromptedViT(**{**TINY, "chosen": 5})


def test_another_network_is_refused():
    learner = Learner(FlatModel(SmallCNN()), Classification(), ReplayBuffer(5), torch.Generator())
    with pytest.raises(PlanError, match=r"method is l2p, but the network is SmallCNN: use models\.prompted_vit"):
        L2P().prepare(learner)


def test_no_number_is_read_between_two_batches():
    learner = make_learner()
    learner.model = FlatModel(PromptedViT(**TINY).to(DEVICE))
    learner.buffer = ReplayBuffer(50, device=DEVICE)

    class Prepared(L2P):
        prepare = FedAvg.prepare  # which transformer it is, is compared before the first batch

    with CountsReads() as counter:
        steps(learner, Prepared(), batches(3))
    assert counter.reads == []


def test_grey_and_small_images_are_shown_as_the_transformer_needs_them():
    assert make_learner().model.module(torch.rand(2, 1, 28, 28)).shape == (2, 10)
