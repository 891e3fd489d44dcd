"""The same federation in Flower's simulation: two clients at a time, each in an actor with one core.

It runs in an environment of its own, because Flower's pinned packages and OpenFL's exclude each other.
"""

import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from benchmarks.peers.plain import DONE, Samples, train, use_one_thread
from models.mnist_cnn import SmallCNN

_ENDLESS = 1000

client_app = ClientApp()


@cache
def _model() -> nn.Module:
    """An actor's network: made once, which is less than the tutorials do."""
    use_one_thread()
    return SmallCNN()


@cache
def _clients(path: str) -> list[Samples]:
    clients: list[Samples] = torch.load(path)
    return clients


@client_app.train()  # type: ignore[untyped-decorator]
def train_one(message: Message, context: Context) -> Message:
    """A client's turn."""
    model = _model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    samples = _clients(message.content["config"]["path"])[context.node_config["partition-id"]]
    train(model, samples)
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(samples["y"])}),
    }
    return Message(content=RecordDict(content), reply_to=message)


class RoundByRound(FedAvg):  # type: ignore[misc]
    """Begins a round with the next line of input and prints its end."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Grid) -> Iterable[Message]:
        """Wait for the line."""
        if not sys.stdin.readline():
            raise SystemExit
        return super().configure_train(server_round, arrays, config, grid)  # type: ignore[no-any-return]

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Say that the round is over; a client that failed ends the measurement."""
        answered = list(replies)
        if failed := [reply for reply in answered if reply.has_error()]:
            raise SystemExit(f"{len(failed)} clients failed: {failed[0].error}")
        combined = super().aggregate_train(server_round, answered)
        print(DONE, flush=True)
        return combined


def serve(path: str, clients: int, workers: int) -> None:
    """Run the federation; the data of all clients is in `path`."""
    server_app = ServerApp()

    @server_app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        strategy = RoundByRound(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=clients)
        initial, config = ArrayRecord(SmallCNN().state_dict()), ConfigRecord({"path": path})
        strategy.start(grid, initial, num_rounds=_ENDLESS, train_config=config)

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": workers}}
    run_simulation(server_app, client_app, num_supernodes=clients, backend_config=resources)
