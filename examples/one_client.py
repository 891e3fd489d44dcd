"""One client without a federation: it learns the digits 0 to 4, then 5 to 9, and should not forget the first five.

The client refines its gradients by the gradient of its own buffer; in a federation, g_ref is the average over all
clients. Run it with: python examples/one_client.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

from fedagem.learning.buffer import ReplayBuffer
from fedagem.learning.client import client_update
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.learner import Learner
from fedagem.learning.methods.der import DER
from fedagem.learning.methods.fedagem import FedAGEM
from fedagem.learning.objective import Classification

torch.manual_seed(0)
torch.set_num_threads(1)  # tiny matrices: more threads would only wait for each other
generator = torch.Generator().manual_seed(0)
digits = load_digits()
x, y = torch.from_numpy(digits.images / 16 * 255).to(torch.uint8), torch.from_numpy(digits.target)
test = torch.arange(len(y)) % 5 == 4

model = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10)))
learner = Learner(model, Classification(), ReplayBuffer(capacity=200), generator)
method, optimizer = FedAGEM(DER(replay_batch=32, coefficient=1.0)), torch.optim.SGD([model.weights], lr=0.1)

for task in (y < 5, y >= 5):
    members = torch.nonzero(task & ~test).squeeze(1)
    for _ in range(10):
        order = members[torch.randperm(len(members), generator=generator)]
        batches = ({"x": x[part], "y": y[part]} for part in order.split(32))
        learner.received = method.buffer_gradient(learner) or {}
        client_update(learner, batches, method, optimizer)
    with torch.no_grad():
        correct = learner.logits({"x": x[test]}).argmax(dim=1) == y[test]
    first, second = correct[y[test] < 5].float().mean(), correct[y[test] >= 5].float().mean()
    print(f"accuracy on 0 to 4: {first:.3f}, on 5 to 9: {second:.3f}, on all: {correct.float().mean():.3f}")
