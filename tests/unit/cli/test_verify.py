"""`stateproc verify` and `stateproc classes`: output, JSON and exit statuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from stateproc.verification import database_check
from tests.helpers.damage.snapshot_copies import SnapshotCopy
from tests.helpers.fixtures import CLASSES, Fixture, fixtures, unknown_type_fixtures
from tests.helpers.paths import FIXTURES

DEMO = str(FIXTURES / "1.20/demo/snapshot")


def named(name: str) -> Fixture:
    return next(fixture for fixture in reversed(fixtures()) if fixture.name == name)


@pytest.fixture
def run(run_command: Any) -> Any:
    return run_command


def test_an_intact_snapshot(run: Any) -> None:
    ran = run("verify", DEMO, "--uids", "orders-per-customer")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[-1].startswith("✓ intact: 7 files, 88.9 KiB, 1,315 rows in ")
    assert lines[-1].endswith(" rows/s)")
    (customers,) = (line for line in lines if "orders-per-customer" in line)
    assert customers.split() == ["orders-per-customer", "4", "1,200", "79.7", "KiB", "✓"]


def test_json_fits_its_schema(run: Any) -> None:
    found = run("verify", DEMO, "--json", "--uid", "orders-per-customer", "--state", "profile").checked("verify")
    assert found["intact"] is True
    assert [state["rows"] for operator in found["operators"] for state in operator["states"]] == [300]


def test_a_damaged_snapshot(run: Any, tmp_path: Path) -> None:
    copy = SnapshotCopy(Fixture(FIXTURES / "1.20/demo", {"snapshot": "snapshot"}), tmp_path)
    file = copy.files("managed keyed")[0]
    file.unlink()
    ran = run("verify", copy.path)
    assert ran.status == 1
    assert "✗ damaged  a file of the snapshot is missing" in ran.out
    assert file.name in ran.out
    assert "→ copy the file there" in ran.out
    assert ran.out.splitlines()[-1].startswith("✗ 1 problem (1 damaged): 7 files")
    found = run("verify", copy.path, "--json").checked("verify")
    assert found["intact"] is False
    (problem,) = found["problems"]
    assert file.name in problem["file"]


def test_of_problems_that_need_the_same_the_first_are_shown(run: Any, tmp_path: Path) -> None:
    fixture = named("1.20/kitchen-rocksdb-incremental")
    copy = SnapshotCopy(fixture, tmp_path)
    files = copy.files()
    for file in files:
        file.unlink()
    ran = run("verify", copy.path)
    assert ran.status == 1
    shown = ran.out.count("✗ damaged")
    assert 0 < shown < 20
    assert f"… and {len(files) - shown} more problems, which --json lists" in ran.out
    assert len(run("verify", copy.path, "--json").checked("verify")["problems"]) == len(files)


def test_what_cannot_be_opened_is_unreadable(run: Any, tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(b"nothing")
    assert run("verify", str(tmp_path)).status == 3
    assert run("verify", str(tmp_path / "none")).status == 3


def test_usage_errors(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("verify", DEMO, "--uid", "nobody").status == 2
    assert run("verify", DEMO, "--state", "nothing").status == 2
    monkeypatch.setattr(database_check, "has_library", lambda: False)
    ran = run("verify", DEMO, "--deep")
    assert ran.status == 2
    assert "stateproc[rocksdb]" in ran.err


def test_the_skeleton_is_written_and_completed(run: Any, tmp_path: Path) -> None:
    snapshot, file = named("1.20/edges-hashmap-canonical").snapshot, tmp_path / "classes.json"
    ran = run("verify", snapshot)
    assert ran.status == 1
    assert '"fixtures.Edges$Dog": {' in ran.out
    ran = run("verify", snapshot, "--classes-skeleton", str(file))
    assert "2 classes need a description: complete" in ran.out
    assert "fieldName" not in ran.out
    assert set(json.loads(file.read_text())) == {"fixtures.Edges$Dog", "fixtures.Edges$Generic"}
    refused = run("verify", snapshot, "--classes-skeleton", str(file))
    assert refused.status == 3
    assert "the skeleton cannot be written" in refused.err
    refused = run("verify", snapshot, "--classes", str(file))
    assert refused.status == 2
    assert "unknown type 'type'" in refused.err
    file.write_text(json.dumps(CLASSES))
    assert run("verify", snapshot, "--classes", str(file)).status == 0


def test_undecodable_states_fit_the_schema(run: Any) -> None:
    found = run("verify", unknown_type_fixtures()[0].snapshot, "--json").checked("verify")
    assert {problem["severity"] for problem in found["problems"]} == {"unreadable"}


def test_names_do_not_control_the_terminal(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stateproc.model.operator.Operator.display", "a\x1b[31mb")
    assert "\x1b" not in run("verify", DEMO).out


def test_classes(run: Any) -> None:
    ran = run("classes", DEMO, "--uids", "orders-per-customer")
    assert ran.status == 0
    (profile,) = (line for line in ran.out.splitlines() if line.startswith(" fixtures.Profile "))
    assert profile.split() == ["fixtures.Profile", "POJO", "orders-per-customer.profile", "(value)", "readable"]
    found = run("classes", DEMO, "--json").checked("classes")
    (profile,) = (item for item in found["classes"] if item["class"] == "fixtures.Profile")
    assert {"name": "total", "type": "Double"} in profile["fields"]
    assert found["skeleton"] == {}


def test_the_skeleton_of_classes(run: Any) -> None:
    snapshot = named("1.20/edges-hashmap-canonical").snapshot
    ran = run("classes", snapshot, "--skeleton")
    of_inner = {"fieldName": "type", "this$0": "fixtures.Edges"}
    assert (ran.status, json.loads(ran.out)) == (0, {"fixtures.Edges$Generic": of_inner})
    listed = run("classes", snapshot).out
    assert "fixtures.Edges$Generic: describe its fields" in listed
    assert run("classes", snapshot, "--json").checked("classes")["classes"][0]["readability"] == "needs a description"


def test_classes_of_an_unknown_serializer(run: Any) -> None:
    ran = run("classes", unknown_type_fixtures()[0].snapshot)
    assert ran.status == 0
    assert "needs a parser" in ran.out
    assert "register" in ran.out


def test_files_outside_of_the_checkpoint_root_are_said_once_and_read_with_the_configuration(
    run: Any, tmp_path: Path
) -> None:
    job = Path(shutil.copytree(FIXTURES / "1.20/chain-changelog/snapshot", tmp_path / "jobs")).glob("*")
    (job,) = (path for path in job if path.is_dir())
    (job / "taskowned").rename(tmp_path / "changelogs")
    (job / "taskowned").symlink_to(tmp_path / "changelogs")
    checkpoint = str(job / "chk-7")
    allow = f"--allow-root {tmp_path}/changelogs"
    for command in ("verify", "inspect"):
        out = " ".join(run(command, checkpoint).out.split())
        assert out.count("files outside of the snapshot's checkpoint root are not followed") >= 1
        assert out.count(allow) == 1 and "damaged" not in out
    found = run("verify", checkpoint, "--json").checked("verify")
    assert {problem["severity"] for problem in found["problems"]} == {"unreadable"}
    assert all(allow in problem["advice"] for problem in found["problems"])
    assert len({problem["operator"] for problem in found["problems"]}) == len(found["problems"])
    configuration = tmp_path / "config.yaml"
    configuration.write_text(f"state.changelog.dstl.dfs.base-path: {tmp_path}/changelogs\n")
    assert run("verify", checkpoint, "--conf", str(configuration)).status == 0
    assert run("verify", checkpoint, "--allow-root", f"{tmp_path}/changelogs").status == 0
