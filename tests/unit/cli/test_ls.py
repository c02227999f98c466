"""``stateproc ls``: output, exit statuses, JSON by its schema."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stateproc.cli import main
from tests.helpers.paths import FIXTURES
from tests.unit.catalog.test_listing import JOB

SCHEMA = json.loads((files("stateproc") / "cli/json_schemas/ls.json").read_text())


@pytest.fixture()
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "1.20/chain-rocksdb/snapshot", tmp_path / "root"))


@pytest.fixture()
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("COLUMNS", raising=False)

    def runner(*arguments: str | Path) -> tuple[int, str, str]:
        status = main(list(map(str, arguments)))
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return status, out, err

    return runner


def report(ran: tuple[int, str, str], status: int = 0) -> dict[str, Any]:
    assert ran[0] == status, ran
    found: dict[str, Any] = json.loads(ran[1])
    jsonschema.validate(found, SCHEMA, jsonschema.Draft202012Validator)
    return found


def test_the_table_shows_each_snapshot_and_marks_the_newest(run: Any, root: Path) -> None:
    status, out, _ = run("ls", root)
    assert status == 0
    lines = [line for line in out.splitlines() if "chk-" in line or "savepoint-" in line]
    assert len(lines) == 9
    assert [line.split()[0] for line in lines].count("▸") == 1 and lines[-1].lstrip().startswith("▸")
    assert f"job {JOB}" in out and "9 complete snapshots" in out


@pytest.mark.parametrize("columns", ["80", "140"])
def test_the_table_fits_the_width(run: Any, root: Path, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = run("ls", root)
    assert max(map(len, out.splitlines()[1:])) <= int(columns)
    assert "…" not in out


def test_json(run: Any, root: Path) -> None:
    (root / JOB / "chk-7/_metadata").unlink()
    (root / JOB / "chk-2/_metadata").write_bytes(b"")
    found = report(run("ls", root, "--json"))
    assert [item["status"] for item in found["snapshots"]].count("complete") == 7
    assert found["roots"] == [str(root)] and found["orphans"] is None and found["configuration"] is None
    assert all(
        item["bytes"] == item["own_bytes"] + item["shared_bytes"] for item in found["snapshots"] if item["bytes"]
    )


def test_unreadable_and_incomplete_snapshots_say_why(run: Any, root: Path) -> None:
    (root / JOB / "chk-7/_metadata").unlink()
    (root / JOB / "chk-2/_metadata").write_bytes(b"")
    status, out, _ = run("ls", root)
    assert status == 0
    assert "✗ chk-2: not a _metadata file" in out
    assert "… chk-7: no _metadata, last written to" in out
    assert "1 incomplete · 1 unreadable" in out


def test_orphans_and_exit_statuses(run: Any, root: Path) -> None:
    assert run("ls", "--orphans", "--min-age", "0s", root)[0] == 1
    shutil.rmtree(root / JOB / "chk-7")
    before = sorted(root.rglob("*"))
    status, out, _ = run("ls", "--orphans", "--min-age", "0s", root)
    assert status == 0
    assert "files" in out and "that no complete snapshot needs" in out and "Nothing was deleted" in out
    found = report(run("ls", "--orphans", "--min-age", "0s", "--json", root))["orphans"]
    assert found["safe"] and found["orphans"] and found["min_age_seconds"] == 0
    (root / JOB / "chk-5/_metadata").write_bytes(b"damaged")
    status, out, _ = run("ls", "--orphans", "--min-age", "0s", root)
    assert status == 3 and "NOT SAFE" in out and "chk-5" in out
    assert report(run("ls", "--orphans", "--json", root), 3)["orphans"]["unsafe_because"]
    assert sorted(root.rglob("*")) == before


def test_young_files_are_listed_apart(run: Any, root: Path) -> None:
    (root / JOB / "shared/11111111-2222-3333-4444-555555555555").write_bytes(b"x")
    status, out, _ = run("ls", "--orphans", root)
    assert status == 1
    assert "not among them: 1 file, 1 B younger than 1 day" in out


def test_nothing_found(run: Any, tmp_path: Path) -> None:
    status, out, _ = run("ls", tmp_path)
    assert status == 1 and "no savepoint and no checkpoint" in out
    assert report(run("ls", "--json", tmp_path), 1)["snapshots"] == []


def test_usage(run: Any, root: Path, tmp_path: Path) -> None:
    assert run("ls")[0] == 2
    assert run("ls", "--min-age", "1d", root)[0] == 2
    assert run("ls", "--orphans", "--min-age", "soon", root)[0] == 2
    status, _, err = run("ls", tmp_path / "roo")
    assert status == 3 and "did you mean" in err


def test_configuration_names_the_directories(
    run: Any, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    conf = tmp_path / "flink-conf.yaml"
    conf.write_text(
        f"state.backend: rocksdb\nstate.checkpoints.dir: file://{root}\nstate.savepoints.dir: {root}/none\n"
        "state.backend.rocksdb.block.blocksize: 8kb\n"
    )
    status, out, _ = run("ls", "--conf", conf)
    assert status == 0
    assert "written as state.checkpoints.dir" in out and "state.backend.rocksdb.block.blocksize" in out
    assert f"{root}/none does not exist" in out and "9 complete snapshots" in out
    found = report(run("ls", "--conf", conf, "--json"))
    assert found["roots"] == [str(root)] and found["missing_roots"] == [f"{root}/none"]
    assert found["configuration"]["backend"] == "rocksdb"
    # A directory that is given counts.
    assert report(run("ls", "--conf", conf, "--json", root / JOB))["roots"] == [str(root / JOB)]


def test_configuration_without_directories(run: Any, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("state.backend.type: hashmap\n")
    status, _, err = run("ls", "--conf", tmp_path)
    assert status == 2 and "execution.checkpointing.dir" in err
    (tmp_path / "config.yaml").write_text(f"execution.checkpointing.dir: {tmp_path}/none\n")
    assert run("ls", "--conf", tmp_path)[0] == 3


def test_names_cannot_control_the_terminal(run: Any, tmp_path: Path) -> None:
    name = "evil\x1b[31m\u202e"
    shutil.copytree(FIXTURES / "1.20/demo/snapshot", tmp_path / name)
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    shutil.copytree(FIXTURES / "1.20/demo/snapshot", os.fsdecode(os.fsencode(tmp_path) + b"/\xff/copy"))
    status, out, _ = run("ls", tmp_path)
    assert status == 0
    assert "\x1b" not in out and "\u202e" not in out and r"evil\x1b[31m" in out
    paths = [item["path"] for item in report(run("ls", tmp_path, "--json"))["snapshots"]]
    assert os.fsdecode(os.fsencode(tmp_path) + b"/\xff/copy") in paths


def test_other_commands_find_names_below_the_configured_directories(run: Any, root: Path, tmp_path: Path) -> None:
    conf = tmp_path / "config.yaml"
    conf.write_text(f"state:\n  savepoints.dir: {root}\n")
    status, out, _ = run("inspect", "--conf", conf, "--json", "savepoint-483d9b-4d0618fc4a49")
    assert status == 0 and json.loads(out)["path"] == f"{root}/savepoint-483d9b-4d0618fc4a49"
    status, _, err = run("inspect", "--conf", conf, "savepoint-000000-4d0618fc4a49")
    assert status == 3 and "stateproc ls --conf" in err
