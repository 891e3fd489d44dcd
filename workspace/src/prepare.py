"""Set up a federation on this machine in one process: initial model, certificate authority, certificates.

The same steps as `fx plan initialize`, `fx workspace certify` and the `certify` commands, by the same functions of
OpenFL, without paying its import time for each of them. Run it inside a workspace: `python -m src.prepare`.
"""

import os
from pathlib import Path

import click
import yaml
from openfl.federated import Plan
from openfl.interface import aggregator, collaborator, workspace
from openfl.utilities.dataloading import initialize_minimal_dataloader
from openfl.utilities.logging import setup_logger

from fedagem.files import write_file
from fedagem.runs.folder import plan_of_run
from fedagem.secagg.identity import MEMBERS_FILE, pins_of


def initialise_model(plan: Plan) -> None:
    """Write the initial model that every collaborator starts from."""
    runner = plan.get_task_runner(initialize_minimal_dataloader(plan))
    plan.save_model_to_state_file(runner.get_tensor_dict(), 0, plan_of_run(Path()).aggregator.init_state_path)


def certify(address: str, collaborators: list[str]) -> None:
    """A certificate authority, and certificates for the aggregator and every collaborator, for this user alone.

    OpenFL would let others read the keys of the authority.
    """
    mask = os.umask(0o077)
    try:
        workspace.certify()
        aggregator.generate_cert_request(address)
        aggregator.certify(address, silent=True)
        for name in collaborators:
            collaborator.generate_cert_request(name, silent=True, skip_package=True)
            collaborator.certify(name, silent=True)
    finally:
        os.umask(mask)


def pin(collaborators: list[str]) -> None:
    """Write down the certificates' fingerprints, which on several machines the members give each other."""
    folder = Path(plan_of_run(Path()).network.cert_folder) / "client"
    write_file(MEMBERS_FILE, yaml.safe_dump(pins_of(folder / f"col_{name}.crt" for name in collaborators)))


@click.command()
def main() -> None:
    """Prepare the workspace in the current directory."""
    setup_logger("warning")
    plan = Plan.parse(Path("plan/plan.yaml"), Path("plan/cols.yaml"), Path("plan/data.yaml"))
    initialise_model(plan)
    certify(plan_of_run(Path()).network.agg_addr, plan.authorized_cols)
    pin(plan.authorized_cols)


if __name__ == "__main__":
    main()
