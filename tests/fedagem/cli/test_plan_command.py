"""`fedagem plan`: what is in force, where it comes from, the schema for editors, and the complete plan."""

import json

import pytest
import yaml
from click.testing import CliRunner

from fedagem.cli.main import main
from fedagem.plans.description import settings_in_force
from fedagem.plans.plan import Plan
from fedagem.plans.workspace import find_plan, plan_names


def run(*arguments):
    return CliRunner().invoke(main, ["plan", *map(str, arguments)])


def origins(name, *assignments):
    return {setting.path: setting for setting in settings_in_force(find_plan(name), assignments)}


def test_every_setting_is_shown_with_its_value_its_origin_and_its_sentence():
    shown = origins("carla_demo", "task_runner.settings.optimizer.momentum=0.5")
    assert (shown["carla.seed"].value, shown["carla.seed"].origin) == ("11", "plan")
    assert shown["network.settings.use_tls"].origin == "base"
    assert (shown["carla.stuck_seconds"].value, shown["carla.stuck_seconds"].origin) == ("90.0", "default")
    assert shown["task_runner.settings.optimizer.momentum"].value == "0.5"
    assert shown["task_runner.settings.optimizer.momentum"].origin == "--set"
    assert shown["assigner.settings.seed"].origin == "derived"
    assert shown["task_runner.settings.model.settings.statistics_momentum"].value == "0.02"
    assert shown["task_runner.settings.objective.settings.thresholds.overlap"].origin == "default"
    assert not [path for path in shown if path.startswith("data_loader.settings.holdout.")], "there is no holdout"
    assert all(setting.sentence for setting in shown.values()), [s.path for s in shown.values() if not s.sentence]


def test_the_rounds_of_a_benchmark_follow_from_its_tasks():
    shown = origins("rotated_digits")
    assert shown["aggregator.settings.rounds_to_train"].value == "20"
    assert shown["aggregator.settings.rounds_to_train"].origin == "derived"


def test_show_prints_a_line_and_a_sentence_for_each():
    result = run("show", "rotated_digits", "--set", "task_runner.settings.method=agem")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    at = lines.index("task_runner.settings.method: agem  # --set")
    assert lines[at + 1].startswith("    ")


@pytest.mark.parametrize("name", plan_names())
def test_the_complete_plan_is_the_same_plan(name):
    result = run("write", name)
    assert result.exit_code == 0, result.output
    complete = yaml.safe_load(result.output)
    assert {"aggregator", "collaborator", "assigner", "tasks", "network"} <= complete.keys()
    assert all(isinstance(stage.get("every", 1), int) for stage in complete["assigner"]["settings"]["stages"])
    assert "defaults" not in result.output


def test_a_written_plan_follows_the_options(tmp_path):
    result = run(
        "write", "rotated_digits", "--rounds", "10", "--seed", "3", "--set", "task_runner.settings.method=agem"
    )
    (tmp_path / "mine.yaml").write_text(result.output)
    plan = Plan.load(tmp_path / "mine.yaml")
    assert (plan.aggregator.rounds_to_train, plan.seed, plan.training.method) == (10, 3, "agem")
    assert plan == Plan.load(find_plan("rotated_digits")).changed(
        {"task_runner.settings.method": "agem"}, rounds=10, seed=3
    )


def test_the_schema_knows_every_setting_and_refuses_others(repository):
    schema = json.loads(run("schema").output)
    text = json.dumps(schema)
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) >= {
        "aggregator",
        "data_loader",
        "task_runner",
        "carla",
        "driving",
        "warm_up",
        "tasks",
    }
    for setting in ("rounds_per_task", "seconds_per_round", "clip_norm", "ignore_lights", "evaluation_vehicles"):
        assert f'"{setting}"' in text
    optimizer = schema["$defs"]["OptimizerSettings"]["properties"]["lr"]
    assert optimizer["exclusiveMinimum"] == 0
    assert optimizer["description"] == "The learning rate."


def test_the_reference_in_the_docs_is_up_to_date(repository):
    written = (repository / "docs" / "plan.md").read_text()
    assert written == run("reference").output, "run `fedagem plan reference > docs/plan.md`"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "rotated_digit"), "did you mean rotated_digits"),
        (("write", "rotated_digits", "--set", "task_runner.settings.metod=agem"), "did you mean"),
        (("show", "rotated_digits", "--set", "task_runner.settings.optimizer.lr=-1"), "lr must be positive, not -1"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
