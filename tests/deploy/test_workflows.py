"""Workflows fit GitHub's schema, and run only what this repository has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

FOLDER = Path(".github") / "workflows"
SCHEMA = "vendor.github-workflows"


def check(schema: str, file: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "check-jsonschema"
    return subprocess.run([program, "--builtin-schema", schema, file], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def workflow(repository):
    return yaml.safe_load((repository / FOLDER / "ci.yaml").read_text())


def test_the_workflow_fits_the_schema(repository, tmp_path):
    file = repository / FOLDER / "ci.yaml"
    done = check(SCHEMA, file)
    assert done.returncode == 0, done.stdout
    broken = tmp_path / "broken.yaml"
    broken.write_text(file.read_text().replace("runs-on", "runs_on"))
    assert check(SCHEMA, broken).returncode != 0


def test_what_it_runs_exists(repository, workflow):
    lines = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    script = "\n".join(lines)
    assert (repository / ".ci" / "run").is_file()
    assert "bash .ci/run" in script
    for target in re.findall(r"make (\w+)", script):
        assert re.search(rf"^{target}:", (repository / "Makefile").read_text(), re.MULTILINE), target
    for file in re.findall(r"(deploy/[\w.]+)\b(?!\.\*)", script):
        assert list(repository.glob(f"{file}*")), file


def test_it_builds_every_image(repository, workflow):
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (repository / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    images = workflow["jobs"]["images"]["strategy"]["matrix"]["target"]
    assert sorted(images) == ["aggregator", "collaborator", "fleet"]
    assert set(images) <= set(stages)


def test_actions_have_versions(workflow):
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in used), used
