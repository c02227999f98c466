"""`stateproc check`: verdicts, JSON and exit statuses."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc import OperatorBootstrap, SavepointWriter
from tests.helpers.flink.changed_plans import recorded
from tests.helpers.flink.job_graph import ARCHIVE
from tests.helpers.paths import FIXTURES

DEMO = str(FIXTURES / "1.20/demo/snapshot")


@pytest.fixture
def run(run_command: Any) -> Any:
    return run_command


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of Flink 1.20 with a UUID by Kryo and a number."""
    target = tmp_path_factory.mktemp("visits") / "savepoint"
    sessions = pa.table({"key": [1, 2], "value": ["00000000-0000-0001-0000-000000000002", None]})
    state = OperatorBootstrap(key_type="Long").value_state("session", sessions, type="Kryo java.util.UUID")
    state.value_state("total", pa.table({"key": [1, 2], "value": [3, 4]}), type="Long")
    return Path(SavepointWriter.new_savepoint(None).with_operator("visits", state).write(target))


def test_the_same_job_on_another_release(run: Any) -> None:
    ran = run("check", DEMO, "--flink-version", "2.3", "--uids", "orders-per-customer")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[:2] == ["orders-per-customer", "  as is  profile  value"]
    assert ran.out.splitlines()[-1] == "✓ restores in Flink 2.3 (the same job): 8 as is"


def test_what_kryo_misreads(run: Any, visits: Path) -> None:
    ran = run("check", str(visits), "--flink-version", "2.0", "--uids", "visits")
    assert ran.status == 1
    assert ran.out.splitlines()[:4] == [
        "visits",
        "  misread  session  value",
        "    Kryo 5 reads values of Kryo 2: java.util.UUID, which Kryo 5 has a serializer of its own for",
        "    Flink: java.io.EOFException: Buffer underflow.",
    ]
    assert ran.out.splitlines()[-1].endswith("in Flink 2.0 (the same job): 1 as is, 1 misread")
    assert run("check", str(visits), "--flink-version", "1.19").status == 0


def test_json_fits_its_schema(run: Any, visits: Path) -> None:
    found = run("check", str(visits), "--flink-version", "2.3", "--json", "--uids", "visits").checked("check")
    assert (found["restores"], found["verdict"], found["job"]) == (False, "misread", "the same job")
    (operator,) = found["operators"]
    assert (operator["uid"], operator["right"]) == ("visits", False)
    assert [(state["name"], state["verdict"], state["right"]) for state in operator["states"]] == [
        ("session", "misread", False),
        ("total", "as is", True),
    ]


def test_a_snapshot_of_the_new_job(run: Any, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed"
    rename = ("--uid", "orders-per-customer", "--state", "profile", "--to", "new")
    assert run("rename-state", DEMO, str(renamed), *rename).status == 0
    ran = run("check", DEMO, "--like", str(renamed), "--uids", "orders-per-customer")
    assert ran.status == 1
    assert "  dropped  profile  value" in ran.out
    assert "→ stateproc rename-state if it has another name in the job" in ran.out
    assert "  starts empty  new  value" in ran.out


def test_the_states_that_a_job_declares(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "states.yaml"
    file.write_text(run("describe", DEMO, "--uids", "orders-per-customer", "--expect").out, encoding="utf-8")
    assert run("check", DEMO, "--expect", str(file)).status == 0
    file.write_text(file.read_text(encoding="utf-8").replace("Double", "Float"), encoding="utf-8")
    ran = run("check", DEMO, "--expect", str(file), "--uids", "orders-per-customer")
    assert ran.status == 1
    assert "    value: Double → Float" in ran.out
    file.write_text(file.read_text(encoding="utf-8").replace("kind: map", "kind: mop"), encoding="utf-8")
    ran = run("check", DEMO, "--expect", str(file))
    assert (ran.status, ran.err.splitlines()[0]) == (2, "error: line 10: 'mop' is no kind of keyed state")
    assert run("check", DEMO, "--expect", str(tmp_path / "none.yaml")).status == 2


def test_nothing_says_what_the_job_is(run: Any) -> None:
    ran = run("check", DEMO)
    assert ran.status == 2
    assert "nothing says what the job is" in ran.err


def test_a_release_that_is_none(run: Any) -> None:
    assert run("check", DEMO, "--flink-version", "3.7").status == 2


def test_plans_of_a_changed_query(run: Any) -> None:
    (found,) = [one for one in recorded() if (one.release, one.name) == ("2.3", "argument")]
    old, new, snapshot = found.folder / "old.json", found.folder / "new.json", str(found.folder / "savepoint")
    ran = run("check", snapshot, "--from-plan", str(old), "--to-plan", str(new))
    assert ran.status == 1
    assert "it is the state of another query: GroupAggregate(" in ran.out and "→ stateproc evolve " in ran.out
    assert run("check", snapshot, "--from-plan", str(old), "--to-plan", str(old)).status == 0
    json_ = run("check", snapshot, "--from-plan", str(old), "--to-plan", str(new), "--json").checked("check")
    assert json_["job"] == "the job of the plan" and json_["verdict"] == "misread"


def test_a_job_graph(run: Any, tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "job-graph"
    ran = run("check", str(folder / "savepoint"), "--job", str(folder / "job.json"))
    assert ran.status == 0
    assert ran.out.splitlines()[-1].endswith("(the same job, with the parallelism of the job graph): 3 as is")
    assert run("check", str(folder / "savepoint"), "--job", str(folder / "savepoint")).status == 2
