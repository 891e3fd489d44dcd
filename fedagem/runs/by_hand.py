"""The OpenFL workspace of a federation whose processes a user starts with `fx`."""

import shutil
from pathlib import Path

from fedagem.errors import FedAGemError
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import workspace_source
from fedagem.runs.folder import freeze_plan, is_requested, is_run, lay_out_workspace, plan_of_run
from fedagem.runs.processes import lock_run

_MARK = ".workspace"
"""The file by which OpenFL knows a workspace."""
_COMMANDS = "plan.py"
"""What `fx plan` does in a workspace: the checks of `fedagem` before a plan is initialised."""


def check_workspace(directory: Path, plan: Plan) -> None:
    """Refuse a folder that is no workspace, or that holds a run or another plan than this one."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise FedAGemError(f"{directory} is a file: choose another folder for the workspace (--workspace).")
    if not (directory / _MARK).exists():
        raise FedAGemError(
            f"{directory} is not an OpenFL workspace, because it has no {_MARK}: name one, or a folder that does not "
            "exist yet (--workspace)."
        )
    if is_requested(directory):
        raise FedAGemError(
            f"{directory} holds a run that fedagem has started: resume that one, or name another folder (--workspace)."
        )
    if is_run(directory) and plan_of_run(directory).origin != plan.origin:
        raise FedAGemError(
            f"{directory} holds another plan: remove {directory / 'plan' / 'plan.yaml'} if no federation needs it, or "
            "name another folder (--workspace)."
        )


def write_workspace(directory: Path, plan: Plan) -> Path:
    """Write the plan that the federation's processes follow, in a new workspace if there is none; its file."""
    check_workspace(directory, plan)
    if not directory.exists():
        partial = directory.with_name(f".{directory.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        lay_out_workspace(partial, plan)
        shutil.copy(workspace_source() / _COMMANDS, partial / _COMMANDS)
        partial.replace(directory)
    with lock_run(directory):
        return freeze_plan(directory, plan)
