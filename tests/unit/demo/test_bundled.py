"""Snapshots that come with the package: they open, and each shows what it is bundled for."""

from __future__ import annotations

from pathlib import Path

import pytest

import stateproc
from stateproc.cli import main
from stateproc.demo.bundled import BUNDLED, copy_notebooks


def test_the_shop_has_offsets_windows_and_maps() -> None:
    kinds = {state.kind for state in stateproc.open(stateproc.bundled_snapshot()).states}
    assert {"value", "map", "aggregating", "event timers", "list"} <= kinds


def test_the_sql_job_has_rows() -> None:
    states = stateproc.open(stateproc.bundled_snapshot("sql")).states
    assert {"deduplicate-state", "window-aggs"} <= {state.name for state in states}


def test_the_query_has_plans() -> None:
    folder = stateproc.bundled_snapshot("query")
    names = [state.operator.display for state in stateproc.open(folder, plan=f"{folder}/old.json").states]
    assert "13_group-aggregate" in names and Path(folder, "new.json").exists()
    assert stateproc.open(folder).verify().problems == ()


def test_checkpoints_read_after_they_are_unpacked() -> None:
    folder = Path(stateproc.bundled_snapshot("checkpoints"))
    assert str(folder) == stateproc.bundled_snapshot("checkpoints")
    rows = [stateproc.open(str(folder / f"chk-{number}")).state("3897", "text").to_arrow() for number in (1, 7)]
    assert all("last_access" in table.column_names and table.num_rows for table in rows)
    assert rows[0] != rows[1]


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(stateproc.NotFound, match="checkpoints"):
        stateproc.bundled_snapshot("checkpoint")


def test_notebooks_are_copied_with_snapshots_that_open(tmp_path: Path) -> None:
    copied = copy_notebooks(tmp_path / "look")
    assert "inspect.ipynb" in copied.notebooks
    assert all((tmp_path / "look" / name).stat().st_size for name in copied.notebooks)
    assert set(copied.snapshots) == set(BUNDLED)
    assert all(stateproc.open(path).operators for path in copied.snapshots.values())


def test_notebooks_are_replaced_only_on_request(tmp_path: Path) -> None:
    first = copy_notebooks(tmp_path)
    (tmp_path / first.notebooks[0]).write_text("mine")
    with pytest.raises(stateproc.InvalidOption, match="--overwrite"):
        copy_notebooks(tmp_path)
    assert (tmp_path / first.notebooks[0]).read_text() == "mine"
    copy_notebooks(tmp_path, overwrite=True)
    assert (tmp_path / first.notebooks[0]).read_text() != "mine"
    with pytest.raises(stateproc.InvalidOption, match="is a file"):
        copy_notebooks(tmp_path / first.notebooks[0])


def test_demo_prints_the_path_for_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--path"]) == 0
    assert capsys.readouterr().out.splitlines() == [stateproc.bundled_snapshot("shop")]
