"""One client that learns the digits 0 to 4 and then 5 to 9: what a method remembers of the first ones."""

import torch
from sklearn.datasets import load_digits
from torch import nn

from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.method import Method
from fedagem.learning.objective import Classification


def accuracy_after_two_tasks(method: Method, epochs: int = 5) -> float:
    """The share of all held-out digits that the client knows in the end."""
    digits = load_digits()
    x, y = torch.from_numpy(digits.images / 16 * 255).to(torch.uint8), torch.from_numpy(digits.target)
    held_out = torch.arange(len(y)) % 5 == 4
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)))
    learner = Learner(model, Classification(), ReplayBuffer(200), generator)
    for task in (y < 5, y >= 5):
        members = torch.nonzero(task & ~held_out).squeeze(1)
        for _ in range(epochs):
            order = members[torch.randperm(len(members), generator=generator)]
            batches = ({"x": x[part], "y": y[part]} for part in order.split(32))
            client_update(learner, batches, method, torch.optim.SGD([model.weights], lr=0.1))
    with torch.no_grad():
        answers = learner.logits({"x": x[held_out]}).argmax(dim=1)
    return float((answers == y[held_out]).float().mean())
