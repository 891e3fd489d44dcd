"""Who gets which samples: the non-IID partitions of the paper."""

import numpy as np
import torch
from torch import Tensor

from fedagem.errors import PlanError

_LEAST_SHARE = 10
"""How many samples each client has at least if classes are spread over clients; from the authors' code."""
_DRAWS = 1000
"""How often such a partition is drawn before it is refused."""


def by_classes(labels: Tensor, clients: int, per_client: int, generator: torch.Generator) -> list[Tensor]:
    """Every client gets samples of `per_client` different classes, and every sample goes to one client.

    Classes are dealt to clients round-robin from a random order, so each class goes to (nearly) the same number
    of clients, which share its samples evenly.
    """
    classes = labels.unique()
    if per_client > len(classes) or clients * per_client < len(classes):
        raise PlanError(
            f"{clients} clients with {per_client} classes each cannot share {len(classes)} classes: "
            "every class needs a client, and no client can have more classes than there are."
        )
    order = classes[torch.randperm(len(classes), generator=generator)]
    dealt = order.repeat(-(-clients * per_client // len(classes)))[: clients * per_client]
    owned = dealt.view(clients, per_client)
    shares: list[list[Tensor]] = [[] for _ in range(clients)]
    for label in classes:
        takers = torch.nonzero((owned == label).any(dim=1)).squeeze(1).tolist()
        members = torch.nonzero(labels == label).squeeze(1)
        members = members[torch.randperm(len(members), generator=generator)]
        for taker, part in zip(takers, members.tensor_split(len(takers)), strict=True):
            shares[taker].append(part)
    return [torch.cat(parts).sort().values for parts in shares]


def by_dirichlet(labels: Tensor, clients: int, alpha: float, generator: torch.Generator) -> list[Tensor]:
    """Every client draws a class mixture q ~ Dir(alpha p) and an equal number of samples.

    p is the classes' prior, scaled to mean 1: alpha is the concentration per class, whatever their number, and 0.3 the
    moderate heterogeneity of the paper. If a class runs out, the rest of a client's samples come from the classes
    that are left, in the proportions of q.
    """
    classes, counts = labels.unique(return_counts=True)
    pools = [torch.nonzero(labels == label).squeeze(1) for label in classes]
    pools = [pool[torch.randperm(len(pool), generator=generator)] for pool in pools]
    left = counts.clone()
    sizes = [len(part) for part in torch.arange(len(labels)).tensor_split(clients)]
    prior = counts / counts.double().mean()
    mixtures = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    shares = []
    for size in sizes:
        q = torch.from_numpy(mixtures.dirichlet((alpha * prior).numpy()))
        taken = _draw_counts(q, left, size, generator)
        parts = [pool.split([int(take), len(pool) - int(take)]) for pool, take in zip(pools, taken, strict=True)]
        shares.append(torch.cat([mine for mine, _ in parts]))
        pools = [rest for _, rest in parts]
        left = left - taken
    return [share.sort().values for share in shares]


def by_dirichlet_over_clients(labels: Tensor, clients: int, alpha: float, generator: torch.Generator) -> list[Tensor]:
    """Every class is spread over the clients by shares drawn from Dir(alpha, ..., alpha), as in the authors' code.

    A client that has its equal part of all samples gets nothing of the classes that follow. The draw is repeated
    until every client has ten samples; a partition with which that does not happen is refused.
    """
    if len(labels) >= clients * _LEAST_SHARE:
        draws = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
        members = [torch.nonzero(labels == label).squeeze(1).numpy() for label in labels.unique()]
        for _ in range(_DRAWS):
            shares = _spread_classes(members, clients, alpha, draws)
            if shares and min(map(len, shares)) >= _LEAST_SHARE:
                return [torch.from_numpy(np.sort(share)) for share in shares]
    raise PlanError(
        f"data_loader.settings.partition (dirichlet_over_clients, alpha {alpha:g}) cannot give {clients} clients at "
        f"least {_LEAST_SHARE} of {len(labels)} samples each: use fewer clients or a larger alpha."
    )


def _spread_classes(
    members: list[np.ndarray], clients: int, alpha: float, draws: np.random.Generator
) -> list[np.ndarray] | None:
    """One draw; None if a class would go only to clients that have enough."""
    equal_part = sum(map(len, members)) / clients
    shares = [np.zeros(0, dtype=np.int64) for _ in range(clients)]
    for of_class in members:
        q = draws.dirichlet(np.full(clients, alpha)) * [len(share) < equal_part for share in shares]
        if not q.sum() > 0:
            return None
        ends = (np.cumsum(q / q.sum()) * len(of_class)).astype(np.int64)[:-1]
        parts = np.split(draws.permutation(of_class), ends)
        shares = [np.concatenate(both) for both in zip(shares, parts, strict=True)]
    return shares


def _draw_counts(q: Tensor, left: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """How many of each class: multinomial with weights q, never more than what is left."""
    taken = torch.zeros_like(left)
    while (missing := size - int(taken.sum())) > 0:
        open_classes = taken < left
        weights = torch.where(open_classes, q, 0.0)
        if float(weights.sum()) <= 0:
            weights = open_classes.double()
        drawn = torch.multinomial(weights, missing, replacement=True, generator=generator)
        taken = torch.minimum(taken + torch.bincount(drawn, minlength=len(left)), left)
    return taken
