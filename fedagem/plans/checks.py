"""Refuses a plan that cannot work before anything starts: what no section can see for itself."""

from collections.abc import Iterator
from pathlib import Path

from carla_bridge.config.section import CarlaSettings
from fedagem.detection.drives import find_drives
from fedagem.errors import DataError, PlanError
from fedagem.learning.model_file import INITIAL_MODEL, SUFFIX, refuse_openfl_file
from fedagem.plans.driving import DriveSettings, DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.plans.rounds import Stage
from fedagem.settings import suggestion
from fedagem.tasks.data_folder import resolve_root
from fedagem.tasks.settings import StreamSettings


def check_plan(plan: Plan) -> None:
    """Refuse a plan whose sections contradict each other, in one sentence."""
    _check_stages(plan)
    _check_fedagem(plan)
    if isinstance(plan.data, StreamSettings):
        _check_tasks(plan, plan.data)
    if isinstance(plan.data, DrivingSettings):
        _check_evaluation(plan.data)
    _check_warm_up(plan)
    _check_drive(plan)


def check_snippet_paths(plan: Plan) -> None:
    """Refuse a plan whose recorded drives are not here. Only runs check this: other machines may have others."""
    if not isinstance(plan.data, DrivingSettings):
        return
    for setting, path in _recorded_paths(plan.data):
        try:
            find_drives(path)
        except DataError as problem:
            raise DataError(f"data_loader.settings.{setting} names {path}, but {problem.message}") from problem


def with_located_model(plan: Plan) -> Plan:
    """The plan with an absolute path to its initial model: the processes of a run work in its folder."""
    if (given := plan.training.initial_model) is None:
        return plan
    path = Path(given).expanduser().resolve()
    if not path.is_file():
        raise PlanError(
            f"{INITIAL_MODEL} is {given}, but there is no such file: name the save/last{SUFFIX} of a finished run."
        )
    refuse_openfl_file(path)
    return plan.changed({INITIAL_MODEL: str(path)})


def _check_stages(plan: Plan) -> None:
    for stage in plan.rounds.stages:
        for task in stage.tasks:
            if task not in plan.tasks:
                path = f"assigner.settings.stages ({stage.name})"
                raise PlanError(f"{path} names the task {task!r}{suggestion(task, plan.tasks)}")


def _check_fedagem(plan: Plan) -> None:
    """Without g_ref the method would train as it is, under the label of Fed-A-GEM."""
    if not plan.training.fedagem:
        return
    stages = plan.rounds.stages
    for place, stage in enumerate(stages):
        trainings = [task for task in stage.tasks if "model" in plan.tasks[task].kwargs.publishes]
        gradients = [before for before in stages[:place] if _publishes_g_ref(plan, before)]
        if trainings and not any(_runs_whenever(before, stage) for before in gradients):
            raise PlanError(
                f"task_runner.settings.fedagem is true, but assigner.settings.stages has no stage before "
                f"{stage.name!r} that publishes g_ref in every round that trains: add one, see plan/base.yaml, or set "
                "fedagem to false."
            )
        for task in trainings:
            if "g_ref" not in plan.tasks[task].kwargs.wants:
                raise PlanError(
                    f"task_runner.settings.fedagem is true, but tasks.{task}.kwargs.wants has no g_ref: add it, or "
                    "set fedagem to false."
                )


def _publishes_g_ref(plan: Plan, stage: Stage) -> bool:
    return any("g_ref" in plan.tasks[task].kwargs.publishes for task in stage.tasks)


def _runs_whenever(stage: Stage, other: Stage) -> bool:
    """Whether a stage runs in every round in which the other does."""
    if other.rounds == "first":
        return stage.runs_in(0)
    return stage.rounds == "all" and other.every % stage.every == 0


def _check_tasks(plan: Plan, data: StreamSettings) -> None:
    rounds, per_task = plan.aggregator.rounds_to_train, data.rounds_per_task
    if rounds != per_task * data.tasks.count:
        raise PlanError(
            f"aggregator.settings.rounds_to_train is {rounds}, but {data.tasks.count} tasks of "
            f"{per_task} rounds (data_loader.settings.rounds_per_task) make "
            f"{per_task * data.tasks.count}: make them agree, or use --rounds."
        )
    for stage in plan.rounds.stages:
        if per_task % stage.every:
            raise PlanError(
                f"assigner.settings.stages ({stage.name}) runs every {stage.every} rounds, which misses ends of tasks "
                f"of {per_task} rounds (data_loader.settings.rounds_per_task): use `every: task`, or a divisor of it."
            )
    arrivals = plan.rounds.participation.arrivals
    if arrivals != data.arrivals:
        raise PlanError(
            f"assigner.settings.participation.arrivals is {arrivals}, but data_loader.settings.arrivals is "
            f"{data.arrivals}: set the one of the data loader only."
        )


def _check_evaluation(data: DrivingSettings) -> None:
    """Refuse an evaluation of frames that the vehicles train on."""
    evaluation = data.evaluation
    if evaluation.held_out_only:
        if data.holdout is None:
            raise PlanError(
                "data_loader.settings.evaluation.held_out_only is true, but no frames are kept out of training: set "
                "data_loader.settings.holdout, or held_out_only to false."
            )
        return
    for domain, paths in evaluation.paths.items():
        for path in paths:
            for vehicle, trained in _training_paths(data):
                if _overlap(path, trained):
                    raise PlanError(
                        f"data_loader.settings.evaluation.paths.{domain} has {path}, which shares frames with "
                        f"{trained} in data_loader.settings.snippets.{vehicle}: score other frames, or set "
                        "data_loader.settings.holdout and evaluation.held_out_only."
                    )


def _overlap(one: str, other: str) -> bool:
    """Whether two paths of a plan are the same folder, or one contains the other."""
    first, second = resolve_root(one).resolve(), resolve_root(other).resolve()
    return first.is_relative_to(second) or second.is_relative_to(first)


def _check_warm_up(plan: Plan) -> None:
    if plan.warm_up is None:
        return
    end = plan.training.optimizer.lr
    if plan.warm_up.lr is not None and not plan.warm_up.lr >= end:
        raise PlanError(
            f"warm_up.lr is {plan.warm_up.lr}, but it falls to task_runner.settings.optimizer.lr, {end}: "
            "give it at least that."
        )
    if not isinstance(plan.data, DrivingSettings):
        raise PlanError(
            "warm_up is for driving plans: a benchmark's plan may name its task_runner.settings.initial_model."
        )


def _check_drive(plan: Plan) -> None:
    """Refuse sections of a drive that are missing, or that contradict what the vehicles should learn from."""
    drives = isinstance(plan.data, DrivingSettings)
    if plan.carla is None:
        if isinstance(plan.data, DrivingSettings) and plan.data.stream is not None:
            raise PlanError(
                "data_loader.settings.stream needs a carla section, which says what the vehicles do: see "
                "plan/carla.yaml, or replay recorded drives with data_loader.settings.snippets."
            )
        if plan.driving is not None:
            raise PlanError("driving needs a carla section: add one, see plan/carla.yaml, or leave driving out.")
        return
    if not drives:
        raise PlanError("carla is for driving plans, whose data_loader.template is src.driving_loader.DrivingLoader.")
    assert isinstance(plan.data, DrivingSettings)
    _check_vehicles(plan.carla, plan.data)
    _check_classes(plan.carla, plan.data)
    _check_windows(plan.carla, plan.data)
    _check_recordings(plan, plan.carla, plan.data)


def _check_vehicles(carla: CarlaSettings, data: DrivingSettings) -> None:
    driven = [vehicle.name for vehicle in carla.vehicles]
    for name in data.vehicles:
        if name not in driven:
            raise PlanError(f"data_loader.settings.vehicles has {name!r}, carla.vehicles not{suggestion(name, driven)}")
    idle = [name for name in driven if name not in data.vehicles]
    if idle and data.stream is not None:
        raise PlanError(
            f"carla.vehicles has {idle[0]!r}, which is not in data_loader.settings.vehicles: nobody would ask for its "
            "frames, and the stream would wait for ever; add it there, or leave it out here."
        )


def _check_classes(carla: CarlaSettings, data: DrivingSettings) -> None:
    """Labels are numbers: both need the same classes in the same order."""
    if list(carla.class_names) != data.classes:
        raise PlanError(
            f"carla.classes are {', '.join(carla.class_names)}, but data_loader.settings.classes are "
            f"{', '.join(data.classes)}: give both the same, in the same order."
        )


def _check_windows(carla: CarlaSettings, data: DrivingSettings) -> None:
    longest = carla.stream.window_seconds
    if data.stream is not None and data.seconds_per_round > longest:
        raise PlanError(
            f"data_loader.settings.seconds_per_round is {data.seconds_per_round:g}, but the longest window that "
            f"may be asked for is {longest:g} s: raise carla.stream.window_seconds."
        )


def _check_recordings(plan: Plan, carla: CarlaSettings, data: DrivingSettings) -> None:
    """What is recorded before the federation begins: evaluation frames that the plan does not name, and a warm-up."""
    if plan.driving is None:
        if not data.evaluation.paths or plan.warm_up is not None:
            raise PlanError("a plan with a carla section needs a driving section: see plan/carla.yaml.")
        return
    if not data.evaluation.paths:
        _check_regions(plan.driving, carla)


def _check_regions(driving: DriveSettings, carla: CarlaSettings) -> None:
    for region in driving.evaluation_regions:
        if region not in carla.regions:
            raise PlanError(f"driving.evaluation_regions has {region!r}{suggestion(region, carla.regions)}")


def _recorded_paths(data: DrivingSettings) -> Iterator[tuple[str, str]]:
    yield from ((f"snippets.{vehicle}", path) for vehicle, path in _training_paths(data))
    for domain, paths in data.evaluation.paths.items():
        yield from ((f"evaluation.paths.{domain}", path) for path in paths)


def _training_paths(data: DrivingSettings) -> Iterator[tuple[str, str]]:
    for vehicle, legs in data.snippets.items():
        yield from ((vehicle, path) for leg in legs for path in leg.paths)
