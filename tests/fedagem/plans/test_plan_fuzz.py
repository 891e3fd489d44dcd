"""Plans that nobody would write: a plan comes out of it, or one sentence."""

import yaml
from hypothesis import strategies as st

from carla_bridge.config.plan_file import parse_config, read_plan
from carla_bridge.errors import ConfigError
from fedagem.errors import FedAGemError
from fedagem.plans.checks import check_plan
from fedagem.plans.plan import Plan
from tests.support.fuzzing import amounts, changed, damaged, fuzz, refused_in_a_sentence, values

PLANS = ("rotated_digits", "permuted_mnist", "carla_demo", "carla_snippets", "sequential_yahooqa")
NASTY = (
    "a: 2021-99-99",
    "a: " + "9" * 5000,
    "a: &a [*a]",
    "carla: &a {classes: *a}",
    "[" * 1500,
    "a: 0x" + "f" * 5000,
    "? [a]\n: b",
    "<<: [1]",
    "!!python/object/apply:os.system ['true']",
    "a: !!binary '!'",
    "a: !!timestamp 'x'",
    "a: 1:99999999999999999999:60",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
)


def use(path):
    """All that is done with a plan before anything starts."""
    with refused_in_a_sentence(FedAGemError):
        plan = Plan.load(path)
        check_plan(plan)
        complete = path.with_name("complete.yaml")
        complete.write_text(plan.to_yaml(), encoding="utf-8")
        assert Plan.of_run(complete, plan.name) == plan
        _ = (plan.workload.collaborators, plan.workload.shift_round, plan.label, plan.digest, plan.origin)
    with refused_in_a_sentence(ConfigError):
        parse_config(read_plan(path))


def documents(repository):
    return [yaml.safe_load((repository / "plan" / f"{name}.yaml").read_text()) for name in PLANS]


@amounts(150, 5_000)
def test_a_changed_plan_is_used_or_refused_in_a_sentence(repository, tmp_path, examples):
    path = tmp_path / "plan.yaml"

    def check(document):
        path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        use(path)

    fuzz(st.sampled_from(documents(repository)).flatmap(changed), check, examples)


@amounts(150, 5_000)
def test_a_damaged_plan_is_used_or_refused_in_a_sentence(repository, tmp_path, examples):
    path = tmp_path / "plan.yaml"
    files = [(repository / "plan" / f"{name}.yaml").read_bytes() for name in PLANS]

    def check(content):
        path.write_bytes(content)
        use(path)

    inputs = st.sampled_from(files).flatmap(damaged) | st.binary(max_size=200) | st.text(max_size=200).map(str.encode)
    fuzz(inputs | st.sampled_from(NASTY).map(str.encode), check, examples)


def test_yaml_that_breaks_its_reader_is_refused_in_a_sentence(tmp_path):
    for number, text in enumerate(NASTY):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text, encoding="utf-8")
        use(path)


@amounts(150, 5_000)
def test_settings_by_path_are_taken_or_refused_in_a_sentence(repository, demo, digits, examples):
    def check(given):
        plan, assignment = given
        with refused_in_a_sentence(FedAGemError):
            check_plan(plan.changed(assignments=[assignment]))

    paths = st.sampled_from(
        [
            "carla.vehicles",
            "carla.schedule",
            "carla.regions",
            "carla.traffic",
            "data_loader.settings.snippets",
            "data_loader.settings.tasks",
            "data_loader.settings.partition",
            "task_runner.settings.model.settings",
            "task_runner.settings.method_settings",
            "task_runner.settings.buffer",
            "task_runner.settings.optimizer",
            "assigner.settings.stages",
            "assigner.settings.participation",
            "tasks.train.kwargs",
        ]
    )
    texts = values.map(lambda value: yaml.safe_dump(value, default_flow_style=True)) | st.text(max_size=40)
    assignments = st.tuples(paths, texts).map("=".join)
    fuzz(st.tuples(st.sampled_from([demo, digits]), assignments), check, examples)
