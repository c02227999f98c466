"""Workflows run what developers run: every command is a target of the Makefile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stateproc.cli.definitions import COMMANDS
from tests.helpers.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = [path for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def _steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
        assert "permissions" in job or "permissions" in yaml.safe_load(path.read_text(encoding="utf-8"))
        yield from job["steps"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_is_a_target_that_exists(path: Path) -> None:
    """Workflows cannot be run here, make can."""
    commands = [step["run"] for step in _steps(path) if "run" in step]
    assert commands
    for command in commands:
        found = re.fullmatch(r"make ([a-z-]+)((?: [A-Z]+=\S+( [\w.]+ }})?)*)\n?", command)
        assert found is not None, command
        assert re.search(rf"(?m)^{found[1]}:.* ## ", MAKEFILE), command
        for variable in re.findall(r"([A-Z]+)=", found[2]):
            assert f"$({variable})" in MAKEFILE, command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_has_a_version(path: Path) -> None:
    for step in _steps(path):
        assert "run" in step or re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", step["uses"]), step


def test_workflows_test_the_releases_that_the_makefile_knows() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    known = re.findall(r"(?m)^PYSPARK_TESTS_([\d.]+) :=", MAKEFILE)
    assert jobs["pyspark"]["strategy"]["matrix"]["release"] == known
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert jobs["unit"]["strategy"]["matrix"]["python"] == classifiers


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_ask_for_the_report_of_verification(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields = {field.get("id"): field for field in form["body"]}
    assert "`stateproc verify PATH --json`" in fields["verify"]["attributes"]["description"]
    assert "verify" in {command.name for command in COMMANDS}
    assert {"name", "description", "body"} <= set(form)
