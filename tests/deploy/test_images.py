"""The Dockerfile and the compose files, as far as they can be checked without Docker.

Linters and schemas see their form; these tests also see whether what they name exists, and whether `fedagem`
accepts the federation that they describe.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedagem.plans.plan import Plan
from tests.support.walk_through import BIN

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "deploy"
DOCKERFILE = FOLDER / "Dockerfile"
COMPOSE = sorted(FOLDER.glob("compose.*.yaml"))
PROGRAMS = Path(sys.executable).parent


def example() -> dict[str, str]:
    """What example.env sets."""
    lines = (FOLDER / "example.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def composed(file: Path) -> Any:
    """A compose file with the values of example.env in place of its variables."""
    known = example()

    def value(match: re.Match[str]) -> str:
        return known.get(match["name"]) or match["default"] or pytest.fail(f"{match['name']} is not in example.env")

    text = re.sub(r"\$\{(?P<name>\w+)(?::[-?](?P<default>[^}]*))?\}", value, file.read_text())
    return yaml.safe_load(text)


def services() -> list[Any]:
    return [
        pytest.param(s, id=f"{file.stem}-{name}") for file in COMPOSE for name, s in composed(file)["services"].items()
    ]


def instructions(name: str) -> list[str]:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", text, re.MULTILINE)


def test_hadolint_has_nothing_to_say(tmp_path):
    def lint(file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAMS / "hadolint", file], capture_output=True, text=True, check=False)

    assert lint(DOCKERFILE).stdout == ""
    broken = tmp_path / "Dockerfile"
    broken.write_text("FROM python\nRUN cd /tmp\n")
    assert lint(broken).returncode != 0


def test_what_is_copied_exists_and_reaches_the_build():
    allowed = re.findall(r"^!(\S+)$", (FOLDER / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    copied = [source for line in instructions("COPY") if "--from" not in line for source in line.split()[:-1]]
    assert "deploy/common.sh" in copied
    for source in copied:
        assert (REPOSITORY / source).exists(), source
        assert any(Path(source).match(pattern) for pattern in allowed), f"{source} is kept out by the .dockerignore"


def test_all_that_the_wheel_is_made_of_is_copied():
    packages = {name.split(".")[0] for name in re.findall(r'"(\w+)"', (REPOSITORY / "setup.py").read_text())}
    copied = {source for line in instructions("COPY") for source in line.split()[:-1]}
    assert {"fedagem", "models", "carla_bridge", "workspace", "plan", "pyproject.toml", "setup.py"} <= copied
    assert {name for name in packages if (REPOSITORY / name).is_dir()} <= copied


def test_entry_points_are_there_and_can_be_executed():
    copied = {Path(source).name for line in instructions("COPY") for source in line.split()[:-1]}
    entries = [yaml.safe_load(line) for line in instructions("ENTRYPOINT")]
    assert len(entries) == 3
    for (entry,) in entries:
        script = FOLDER / Path(entry).name
        assert script.name in copied
        assert os.access(script, os.X_OK), f"{script} is not executable"
        assert script.read_text().startswith("#!/bin/sh\n")
        assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0


def test_images_have_exact_versions_and_no_registry():
    stages = instructions("FROM")
    bases = {line.split()[0] for line in stages} - {line.split()[-1] for line in stages}
    used = {service.values[0]["image"] for service in services() if "build" not in service.values[0]}
    assert used == {"carlasim/carla:0.9.16"}
    for image in bases | used:
        name, _, tag = image.partition(":")
        assert re.match(r"\d+\.\d+\.\d+", tag), f"{image} has no exact version"
        assert "." not in name.split("/")[0], f"{image} names a registry"


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.stem)
def test_compose_files_fit_the_specification(file, tmp_path):
    def check(path: Path) -> int:
        command = [str(PROGRAMS / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(path)]
        return subprocess.run(command, capture_output=True, check=False).returncode

    filled = tmp_path / file.name
    filled.write_text(yaml.safe_dump(composed(file)))
    assert check(file) == check(filled) == 0
    filled.write_text(filled.read_text().replace("restart:", "restarts:"))
    assert check(filled) != 0


@pytest.mark.parametrize("service", services())
def test_every_service_restarts_and_builds_a_stage_that_exists(service):
    assert service["restart"] in {"on-failure", "unless-stopped"}
    if "build" in service:
        assert f" AS {service['build']['target']}" in DOCKERFILE.read_text()
        assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DOCKERFILE


@pytest.mark.parametrize("service", services())
def test_variables_are_those_of_the_entry_point(service):
    if "entrypoint" in service or "build" not in service:
        return
    script = (FOLDER / f"{service['build']['target']}.sh").read_text()
    described = re.findall(r"^# ([A-Z_]+) ", script, re.MULTILINE)
    assert set(service["environment"]) <= set(described)


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.stem)
def test_what_is_waited_for_and_mounted_is_in_the_file(file):
    document = composed(file)
    for name, service in document["services"].items():
        awaited = service.get("depends_on", [])
        for other in awaited:
            assert other in document["services"]
            if isinstance(awaited, dict) and awaited[other]["condition"] == "service_healthy":
                assert "healthcheck" in document["services"][other], f"{name} waits for the health of {other}"
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert source.startswith("./") or source in document["volumes"], mount


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.stem)
def test_the_plan_is_accepted_and_fits_the_services(file, tmp_path):
    document = composed(file)
    variables = document["services"]["aggregator"]["environment"]
    changes = [part for line in variables["PLAN_SETTINGS"].splitlines() for part in ("--set", line)]
    command = [BIN / "fedagem", "plan", "write", variables["PLAN"], *changes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "plan.yaml").write_text(done.stdout)
    plan = Plan.load(tmp_path / "plan.yaml")
    assert list(plan.workload.collaborators) == variables["MEMBERS"].split()
    stream = yaml.safe_load(done.stdout)["data_loader"]["settings"]["stream"]
    assert stream["host"] == document["services"]["fleet"]["environment"]["ADDRESS"] == variables["FLEETS"]


@pytest.mark.parametrize("file", COMPOSE, ids=lambda file: file.stem)
def test_health_is_asked_for_with_options_that_exist(file):
    text = file.read_text()
    assert "carla-bridge check --passive" in " ".join(re.findall(r"[\w./-]+", text))
    help_text = subprocess.run(
        [BIN / "carla-bridge", "check", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for option in ("--passive", "--host", "--port"):
        assert option in help_text
