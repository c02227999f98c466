"""``stateproc demo`` and ``stateproc notebook``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stateproc.cli import main
from stateproc.cli.commands.demo import STEPS
from tests.helpers.paths import ROOT

SCHEMAS = ROOT / "stateproc/cli/json_schemas"


def _checked(command: str, text: str) -> Any:
    content = json.loads(text)
    jsonschema.validate(content, json.loads((SCHEMAS / f"{command}.json").read_text(encoding="utf-8")))
    return content


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print as wide as to a pipe: test runners set COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


def test_demo_prints_each_command_and_its_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    printed = capfd.readouterr().out
    assert all(f"\n$ stateproc {step.command}\n" in printed for step in STEPS)
    for answer in (
        "106 of 128 hold data",
        "15000845180",
        '"name": "customer № 42"',
        "154.25",
        "sum: 1904.0",
        "user-timers",
    ):
        assert answer in printed
    assert printed.startswith("$ SHOP=/")


def test_demo_as_json_contains_the_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json"]) == 0
    content = _checked("demo", capsys.readouterr().out)
    assert [step["status"] for step in content["steps"]] == [0] * len(STEPS)
    assert "15000845180" in content["steps"][1]["output"]


def test_notebook_lists_what_it_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notebook", str(tmp_path / "my look")]) == 0
    printed = capsys.readouterr().out
    assert f"{tmp_path}/my look/inspect.ipynb\n" in printed and f"jupyter lab '{tmp_path}/my look'" in printed
    assert main(["notebook", str(tmp_path / "my look")]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["notebook", str(tmp_path / "my look"), "--overwrite", "--json"]) == 0
    content = _checked("notebook", capsys.readouterr().out)
    assert Path(content["snapshots"]["sql"], "_metadata").exists()


def test_notebook_reports_a_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notebook", "/proc/none"]) == 3
    assert "cannot be copied" in capsys.readouterr().err
