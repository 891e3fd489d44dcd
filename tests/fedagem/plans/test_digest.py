"""What names a plan: its digest knows every setting, its origin what a round depends on, both the code's version."""

import pytest
import yaml

from fedagem.plans.plan import Plan
from fedagem.runs import preparation
from fedagem.studies.runs import runs_of
from fedagem.studies.study import load_study


@pytest.fixture
def plan(repository):
    return Plan.load(repository / "plan" / "rotated_digits.yaml")


@pytest.fixture
def drive(repository):
    return Plan.load(repository / "plan" / "carla_demo.yaml")


def digests(plan):
    return plan.digest, plan.origin


@pytest.fixture
def next_version(monkeypatch):
    monkeypatch.setattr("fedagem.plans.identity.LEARNING_VERSION", 1000)


WITHOUT_EFFECT = [
    "network.settings.agg_addr=agg.example.org",
    "network.settings.agg_port=50051",
    "network.settings.client_reconnect_interval=7",
    "network.settings.use_tls=false",
    "aggregator.settings.poll_seconds=3",
    "aggregator.settings.keep_received=true",
    "aggregator.settings.log_memory_usage=true",
    "collaborator.settings.connect_seconds=3",
    "collaborator.settings.retry_seconds=3",
    "aggregator.settings.write_logs=true",
]


@pytest.mark.parametrize("assignment", WITHOUT_EFFECT)
def test_what_changes_no_number_has_the_same_origin(plan, assignment):
    changed = plan.changed(assignments=[assignment])
    assert changed.origin == plan.origin
    assert changed.digest != plan.digest, "a digest agrees with what makes plans equal"


WITHOUT_EFFECT_ON_A_DRIVE = [
    "data_loader.settings.stream={host: there, port: 1}",
    "carla.port=2100",
    "carla.timeout_seconds=50",
    "carla.traffic_manager_port=8000",
    "carla.stream.host=there",
    "carla.stream.port=1",
    "driving.snippets=elsewhere",
]


@pytest.mark.parametrize("assignment", WITHOUT_EFFECT_ON_A_DRIVE)
def test_wherever_a_drive_takes_place_it_has_the_same_origin(drive, assignment):
    assert drive.changed(assignments=[assignment]).origin == drive.origin


def test_an_address_among_defaults_does_not_matter_either(drive):
    plain = drive.changed({"carla.stream": {}})
    assert plain.changed({"carla.stream": {"port": 1}}).origin == plain.origin


WITH_EFFECT = [
    "task_runner.settings.method=agem",
    "task_runner.settings.fedagem=false",
    "task_runner.settings.buffer.capacity=7",
    "task_runner.settings.buffer.policy=sliding_window",
    "task_runner.settings.optimizer.lr=0.7",
    "data_loader.settings.seed=7",
    "data_loader.settings.rounds_per_task=1",
    "aggregator.settings.weighting=samples",
    "assigner.settings.participation={per_round: 2}",
    "compression_pipeline.template=openfl.pipelines.KCPipeline",
]


@pytest.mark.parametrize("assignment", WITH_EFFECT)
def test_what_changes_numbers_is_another_origin(plan, assignment):
    changed = plan.changed(assignments=[assignment])
    assert changed.digest != plan.digest
    assert changed.origin != plan.origin


@pytest.mark.parametrize("path", ["data_loader.settings.holdout", "carla.regions.country"])
def test_a_part_with_nothing_but_defaults_counts(drive, path):
    changed = drive.changed({path: {}})
    assert changed.digest != drive.digest
    assert changed.origin != drive.origin


def test_a_drive_and_a_replay_differ(drive):
    replay = {vehicle: [{"paths": ["city"]}] for vehicle in drive.workload.collaborators}
    changed = drive.changed({"data_loader.settings.stream": None, "data_loader.settings.snippets": replay})
    assert changed.origin != drive.origin


def test_a_longer_run_has_another_digest_but_the_same_origin(drive):
    longer = drive.changed({"aggregator.settings.rounds_to_train": drive.aggregator.rounds_to_train + 1})
    assert longer.digest != drive.digest
    assert longer.origin == drive.origin


def test_longer_tasks_are_another_origin(plan):
    longer = plan.changed(rounds=2 * plan.aggregator.rounds_to_train)
    assert longer.origin != plan.origin, "its rounds learn from other data"


def by_hand(plan, path, section, content):
    """The plan of a workspace, with a section of OpenFL's own as somebody wrote it."""
    document = yaml.safe_load(plan.to_yaml())
    document[section] = {**document.get(section, {}), **content}
    path.write_text(yaml.safe_dump(document))
    return Plan.of_run(path, plan.name)


def test_empty_settings_change_no_digest(plan, tmp_path):
    """`fx plan initialize` writes them into every section."""
    assert digests(by_hand(plan, tmp_path / "p.yaml", "compression_pipeline", {"settings": {}})) == digests(plan)


@pytest.mark.parametrize(
    ("section", "content"),
    [
        ("compression_pipeline", {"settings": {"n_clusters": 6}}),
        ("straggler_handling_policy", {"template": "openfl.component.aggregator.straggler_handling.CutoffTimePolicy"}),
    ],
)
def test_the_sections_that_only_openfl_reads_count(plan, tmp_path, section, content):
    changed = by_hand(plan, tmp_path / "p.yaml", section, content)
    assert changed.digest != plan.digest
    assert changed.origin != plan.origin


def test_another_version_of_the_code_has_other_digests(plan, request):
    before = digests(plan)
    request.getfixturevalue("next_version")
    assert not set(digests(plan)) & set(before)


def test_a_study_does_not_find_the_runs_of_another_version(repository, tmp_path, request):
    study = load_study(repository / "plan", "buffer-size")

    def folders():
        return {run.directory for run in runs_of(study, "smoke", 1, repository / "plan", tmp_path)}

    before = folders()
    request.getfixturevalue("next_version")
    assert not folders() & before


def test_a_warm_up_of_another_version_is_not_found(drive, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preparation, "run_jobs", lambda jobs, parallel: None)
    before = preparation.warm_up(drive).training.initial_model
    request.getfixturevalue("next_version")
    assert preparation.warm_up(drive).training.initial_model != before
