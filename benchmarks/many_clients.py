"""A thousand clients in one process: logistic regression on MNIST (60 samples each, 10 a round, batch 10, 100 rounds).

CPU seconds of the process, which are what it takes on an idle machine, too. Then the turns of clients per second if
their task computes nothing.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measurement import Measurement
from fedagem.plans.plan import Plan
from fedagem.runs.folder import create_run

_REPOSITORY = Path(__file__).resolve().parent.parent
_CLIENTS = 1000


def main() -> None:
    """Print the CPU seconds with and without the start, and the turns per second."""
    sys.path.insert(0, str(_REPOSITORY / "workspace"))
    from src.simulate import run_rounds

    with tempfile.TemporaryDirectory() as folder:
        federation = _build(Path(folder) / "rounds", rounds=100)
        began = time.process_time()
        run_rounds(*federation)
        ended = time.process_time()
        Measurement("100 rounds of 1,000 clients, start included", ended, "CPU s", 20).show()
        Measurement("100 rounds of 1,000 clients, the rounds alone", ended - began, "CPU s", 10).show()
        aggregator, clients = _build(Path(folder) / "turns", rounds=1)
        turns = [0]

        def nothing(*_: Any, **__: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
            turns[0] += 1
            return {}, {}

        type(clients.runner).evaluate = nothing
        began = time.process_time()
        run_rounds(aggregator, clients)
        speed = turns[0] / (time.process_time() - began)
        Measurement("turns of clients with an empty task", speed, "per CPU s", 100, at_least=True).show()
        os.chdir(_REPOSITORY)


def _build(directory: Path, rounds: int) -> Any:
    """The federation in a folder of its own, which becomes the current one."""
    from openfl.federated import Plan as OpenFLPlan

    from src.simulate import build_federation

    plan = Plan.load(_REPOSITORY / "plan" / "rotated_mnist.yaml").changed(
        {
            "data_loader.settings.tasks": {"kind": "rotated", "count": 1, "max_angle": 0},
            "data_loader.settings.clients": _CLIENTS,
            "data_loader.settings.samples_per_client": 60,
            "data_loader.settings.batch_size": 10,
            "data_loader.settings.epochs": 1,
            "assigner.settings.participation.per_round": 10,
            "task_runner.settings.model.template": "models.mnist_cnn.LogisticRegression",
            "task_runner.settings.method": "fedavg",
            "task_runner.settings.fedagem": False,
        },
        rounds=rounds,
    )
    create_run(directory, plan)
    os.chdir(directory)
    return build_federation(OpenFLPlan.parse(*(Path("plan") / f"{name}.yaml" for name in ("plan", "cols", "data"))))


if __name__ == "__main__":
    main()
