"""`fx plan` in this workspace: OpenFL's commands, and the checks of `fedagem` before a plan is initialised.

`fx` imports its groups of commands by their bare names and looks in the workspace first, so it finds this module. It
reads a plan before it imports anything that the plan names: nowhere else could a short plan end in a sentence.
"""

from pathlib import Path
from typing import Any

from openfl.interface.plan import plan

from fedagem.errors import PlanError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import IncompletePlanError, Plan

_CERTIFICATES = Path("cert")
_initialize = plan.commands["initialize"].callback


def _check_and_initialize(plan_config: str, **options: Any) -> None:
    try:
        check_plan(Plan.of_run(Path(plan_config), Path(plan_config).stem))
    except IncompletePlanError as problem:
        raise PlanError(
            f"{plan_config} is not complete: {problem.message.rstrip('.')}; write it with "
            f"`fedagem plan write NAME > {plan_config}`."
        ) from problem
    _initialize(plan_config=plan_config, **options)
    _CERTIFICATES.mkdir(exist_ok=True)
    _CERTIFICATES.chmod(0o700)  # the keys of an authority will be there, which OpenFL lets others read


plan.commands["initialize"].callback = _check_and_initialize
