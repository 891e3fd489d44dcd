"""Refuses a plan that cannot work before anything starts: what no section can see for itself."""

from collections.abc import Iterator
from pathlib import Path

from carla_bridge.config.section import CarlaSettings
from fedagem.errors import DataError, PlanError
from fedagem.learning.methods import METHODS, find_method
from fedagem.learning.model_file import INITIAL_MODEL, SUFFIX, refuse_openfl_file
from fedagem.learning.trainer import BufferSettings
from fedagem.plans.checks_of_means import check_means
from fedagem.plans.driving import DriveSettings, DrivingSettings
from fedagem.plans.plan import Plan
from fedagem.plans.protection import check_protection
from fedagem.plans.rounds import Stage
from fedagem.settings import suggestion
from fedagem.tasks.data_folder import resolve_root
from fedagem.tasks.settings import StreamSettings


def check_plan(plan: Plan, may_end_early: bool = False) -> None:
    """Refuse a plan whose sections contradict each other, in one sentence.

    A federation that is started by hand may end before the last task, and be lengthened later.
    """
    _check_stages(plan)
    _check_fedagem(plan)
    _check_method(plan)
    check_means(plan)
    if isinstance(plan.data, StreamSettings):
        _check_tasks(plan, plan.data, may_end_early)
    if isinstance(plan.data, DrivingSettings):
        _check_evaluation(plan.data)
    _check_warm_up(plan)
    _check_drive(plan)
    check_protection(plan)


def check_snippet_paths(plan: Plan) -> None:
    """Refuse a plan whose recorded drives are not here. Only runs check this: other machines may have others."""
    if not isinstance(plan.data, DrivingSettings):
        return
    from fedagem.detection.drives import find_drives  # takes seconds: OpenCV and torchvision

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
        gradients = [before for before in stages[:place] if _publishes_buffer_gradients(plan, before)]
        if trainings and not any(_runs_whenever(before, stage) for before in gradients):
            raise PlanError(
                f"task_runner.settings.fedagem is true, but assigner.settings.stages has no stage before "
                f"{stage.name!r} that publishes buffer gradients in every round that trains: add one, see "
                "plan/base.yaml, or set fedagem to false."
            )
        for task in trainings:
            if "method" not in plan.tasks[task].kwargs.wants:
                raise PlanError(
                    f"task_runner.settings.fedagem is true, but tasks.{task}.kwargs.wants has no method: add it, or "
                    "set fedagem to false."
                )


def _check_method(plan: Plan) -> None:
    """Refuse a plan that cannot give the method what it needs; of one's own method nothing is known before a run."""
    if plan.training.method in METHODS:
        check_needs(plan)


def check_needs(plan: Plan) -> None:
    """Refuse a plan without what its method declares: tasks with ends, a kind of tasks, classification."""
    name, method = plan.training.method, find_method(plan.training.method)
    setting = f"task_runner.settings.method is {name}"
    if isinstance(plan.data, DrivingSettings):
        if method.needs_boundaries:
            raise PlanError(f"{setting}, which must be told where tasks end, but what vehicles see has no such ends.")
        if not method.detects:
            raise PlanError(f"{setting}, which is for classification, but this plan trains a detector.")
        return
    given = {"class_il", "task_il"} if plan.data.tasks.kind == "sequential" else {"domain_il"}
    if not given & method.scenarios:
        kinds = "sequential" if "domain_il" in given else "rotated or permuted"
        raise PlanError(
            f"{setting}, which is not defined for data_loader.settings.tasks.kind {plan.data.tasks.kind}: it is for "
            f"{kinds} tasks."
        )
    if method.needs_surrogate and plan.data.surrogate is None:
        raise PlanError(
            f"{setting}, which learns from images without labels besides those of the tasks: name a data set in "
            "data_loader.settings.surrogate."
        )
    chosen, usual = plan.training.buffer, BufferSettings()
    if method.fills_buffer and (chosen.policy, chosen.offer) != (usual.policy, usual.offer):
        raise PlanError(
            f"{setting}, which chooses the samples of its buffer itself: leave task_runner.settings.buffer.policy and "
            "task_runner.settings.buffer.offer out."
        )
    if not method.needs_boundaries:
        return
    if plan.data.asynchronous_samples is not None:
        raise PlanError(
            f"{setting}, which must be told where tasks end, but with data_loader.settings.asynchronous_samples every "
            "client reaches the end of a task at another time."
        )
    ends = [stage for stage in plan.rounds.stages if "end_task" in {plan.tasks[task].function for task in stage.tasks}]
    if not any(stage.every == plan.data.rounds_per_task for stage in ends):
        raise PlanError(
            f"{setting}, which needs a stage at the end of each task: add one with a task of function end_task and "
            "`every: task` to assigner.settings.stages, see plan/base.yaml."
        )


def _publishes_buffer_gradients(plan: Plan, stage: Stage) -> bool:
    tasks = [plan.tasks[name] for name in stage.tasks]
    return any(task.function == "buffer_gradient" and "method" in task.kwargs.publishes for task in tasks)


def _runs_whenever(stage: Stage, other: Stage) -> bool:
    """Whether a stage runs in every round in which the other does."""
    if other.rounds == "first":
        return stage.runs_in(0)
    return stage.rounds == "all" and other.every % stage.every == 0


def _check_tasks(plan: Plan, data: StreamSettings, may_end_early: bool) -> None:
    rounds, per_task = plan.aggregator.rounds_to_train, data.rounds_per_task
    whole = per_task * data.tasks.count
    if rounds > whole or (rounds < whole and not may_end_early):
        raise PlanError(
            f"aggregator.settings.rounds_to_train is {rounds}, but {data.tasks.count} tasks of "
            f"{per_task} rounds (data_loader.settings.rounds_per_task) make "
            f"{whole}: make them agree, or use --rounds."
        )
    for stage in plan.rounds.stages:
        if per_task % stage.every:
            raise PlanError(
                f"assigner.settings.stages ({stage.name}) runs every {stage.every} rounds, which misses ends of tasks "
                f"of {per_task} rounds (data_loader.settings.rounds_per_task): use `every: task`, or a divisor of it."
            )
        if stage.every != per_task and any(plan.tasks[task].function == "end_task" for task in stage.tasks):
            raise PlanError(
                f"assigner.settings.stages ({stage.name}) ends tasks every {stage.every} rounds, but tasks have "
                f"{per_task} (data_loader.settings.rounds_per_task): use `every: task`."
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
