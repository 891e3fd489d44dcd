"""Classification: what the network sees of an image, with the options of the authors' code and without."""

import pytest
import torch
from torch import nn
from torchvision.transforms.v2 import functional as transforms

from fedagem.errors import PlanError
from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.der import DER
from fedagem.learning.objective import Classification
from fedagem.learning.trainer import Component

IMAGES = torch.randint(0, 256, (64, 3, 16, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def seen(objective, x):
    """What the network is given."""
    return objective.logits(nn.Identity(), {"x": x})


def test_pixels_are_scaled_to_one_by_default_and_features_are_left_alone():
    assert torch.equal(seen(Classification(), IMAGES), IMAGES.float() / 255)
    features = torch.randn(4, 7)
    assert seen(Classification(), features) is features


def test_normalisation_is_that_of_torchvision():
    mean, std = [0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]
    objective = Classification(normalisation={"mean": mean, "std": std})
    torch.testing.assert_close(seen(objective, IMAGES), transforms.normalize(IMAGES.float() / 255, mean, std))


def test_pixels_can_be_brought_to_minus_one_and_one():
    objective = Classification(normalisation={"mean": [0.5] * 3, "std": [0.5] * 3})
    black_and_white = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 4, 4)
    assert seen(objective, black_and_white)[:, 0, 0, 0].tolist() == [-1, 1]


def augmented(seed=0, **strengths):
    return Classification(augmentation=strengths).augment({"x": IMAGES, "y": torch.arange(64)}, generator(seed))


def test_a_view_is_the_batch_itself_by_default():
    batch = {"x": IMAGES}
    assert Classification().augment(batch, generator()) is batch


def test_each_image_is_cropped_and_mirrored_for_itself():
    """Every view is a window of its bordered image, as it is or mirrored; all offsets and both sides occur."""
    view = augmented(crop=2, flip=0.5)["x"]
    bordered = nn.functional.pad(IMAGES, [2] * 4)
    chosen = []
    for picture, image in zip(view, bordered, strict=True):
        windows = {
            (down, across, mirrored): image[:, down : down + 16, across : across + 12].flip(2 if mirrored else ())
            for down in range(5)
            for across in range(5)
            for mirrored in (False, True)
        }
        [found] = [place for place, window in windows.items() if torch.equal(window, picture)]
        chosen.append(found)
    down, across, mirrored = zip(*chosen, strict=True)
    assert (set(down), set(across), set(mirrored)) == ({0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, {False, True})


def test_strengths_are_independent():
    assert torch.equal(augmented(flip=1.0)["x"], IMAGES.flip(3))
    mirrored = (augmented(flip=0.25)["x"] != IMAGES).flatten(1).any(1)
    assert 4 <= int(mirrored.sum()) <= 30
    assert torch.equal(augmented(crop=3)["x"].flatten(1).sum(1) <= IMAGES.flatten(1).sum(1), torch.ones(64).bool())


def test_a_view_follows_from_the_generator_and_leaves_the_batch_as_it_is():
    before = IMAGES.clone()
    first, again, other = (augmented(seed, crop=4, flip=0.5) for seed in (1, 1, 2))
    assert torch.equal(first["x"], again["x"])
    assert not torch.equal(first["x"], other["x"])
    assert torch.equal(first["y"], torch.arange(64))
    assert torch.equal(IMAGES, before)


def test_the_buffer_keeps_images_as_they_are():
    objective = Classification(augmentation={"crop": 4, "flip": 0.5})
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 12, 10))
    learner = Learner(FlatModel(network), objective, ReplayBuffer(64), generator())
    batches = [{"x": part, "y": torch.arange(16) % 10} for part in IMAGES.split(16)]
    client_update(learner, batches, DER(), torch.optim.SGD([learner.model.weights], lr=0.01))
    assert torch.equal(learner.buffer.contents()["x"], IMAGES)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"normalisation": {"mean": [0.5] * 3, "std": [0.5] * 2}}, r"normalisation has 3 means and 2 deviations"),
        (
            {"normalisation": {"mean": [0.5], "std": [0.0]}},
            r"objective\.settings\.normalisation\.std\[0\] must be posit",
        ),
        ({"normalisation": {"mean": []}}, r"normalisation\.(mean|std)"),
        ({"augmentation": {"flip": 1.5}}, r"augmentation\.flip must be at most 1"),
        ({"augmentation": {"crop": -1}}, r"augmentation\.crop must be at least 0"),
        ({"augmentation": {"crops": 4}}, r"augmentation has no setting 'crops'; did you mean crop"),
        ({"normalization": None}, r"has no setting 'normalization'; did you mean normalisation"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, sentence):
    component = Component(template="fedagem.learning.objective.Classification", settings=settings)
    with pytest.raises(PlanError, match=sentence):
        component.build("task_runner.settings.objective")


def test_options_for_images_are_refused_for_other_data():
    normalised = Classification(normalisation={"mean": [0.5] * 3, "std": [0.5] * 3})
    with pytest.raises(PlanError, match=r"normalisation is for images, but this data set has features of shape \(7,\)"):
        seen(normalised, torch.randn(4, 7))
    with pytest.raises(PlanError, match=r"normalisation has 3 means, but images have 1 channels"):
        seen(normalised, IMAGES[:, :1])
    with pytest.raises(PlanError, match=r"augmentation is for images"):
        Classification(augmentation={"flip": 0.5}).augment({"x": torch.randn(4, 7)}, generator())
