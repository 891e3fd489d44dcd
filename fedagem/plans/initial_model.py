"""A federation that does not begin from random weights: the model that an earlier run ended with, given by the plan."""

from pathlib import Path

from fedagem.errors import DataError, PlanError
from fedagem.learning.flat_model import FlatModel
from fedagem.learning.model_file import SUFFIX, read_model, refuse_openfl_file
from fedagem.plans.plan import Plan

_SETTING = "task_runner.settings.initial_model"


def with_located_model(plan: Plan) -> Plan:
    """The plan with an absolute path to its initial model: the processes of a run work in its folder."""
    if (given := plan.training.initial_model) is None:
        return plan
    path = Path(given).expanduser().resolve()
    if not path.is_file():
        raise PlanError(
            f"{_SETTING} is {given}, but there is no such file: name the save/last{SUFFIX} of a finished run."
        )
    refuse_openfl_file(path)
    return plan.changed({_SETTING: str(path)})


def load_initial_model(model: FlatModel, path: Path) -> None:
    """Fill the model from a model file; one of another network is refused."""
    if not path.is_file():
        raise PlanError(f"{_SETTING} is {path}, but there is no such file here.")
    try:
        model.load_state_dict(dict(read_model(path).weights))
    except RuntimeError as problem:
        reason = " ".join(str(problem).split())
        raise DataError(f"{path} does not fit the model of the plan: {reason}") from problem
