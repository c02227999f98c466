"""Runs of jobs in this process: plan, apply, checks, idempotence, pointers, hooks, secrets, kills."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.errors import CheckFailed, InvalidOption, MissingFile, NotFound, SnapshotError
from stateproc.jobs.job_run import execute_job
from stateproc.writers.commit.commit import MANIFEST
from tests.helpers.document_runs import environment
from tests.helpers.paths import VECTORS

SHOP = stateproc.bundled_snapshot("shop")
UID = "orders-per-customer"
_WRITE_SECONDS = 0.15
_KILLS = 12
"""How long the run that is killed writes, about."""
JOB: dict[str, Any] = {
    "job": "rename",
    "variables": {"to": "orders-a"},
    "base": {"path": SHOP, "open": {"uids": ["orders-per-customer"]}},
    "changes": [{"rename-operator": {"uid": "orders-per-customer", "to": "${to}"}}],
}


def _job(folder: Path, **sections: Any) -> dict[str, Any]:
    return {**JOB, "target": {"path": f"{folder}/renamed-{{to}}-{{run_id}}"}, **sections}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _rows(snapshot: str, uid: str, state: str = "profile") -> list[dict[str, Any]]:
    found = stateproc.open(snapshot, uids=[uid]).state(uid, state).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["key"])


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    report = stateproc.run_job(_job(tmp_path), plan=True)
    assert report.status == "planned"
    assert report.plan is not None
    renamed = [item for item in report.plan["operators"] if item["uid"] == "orders-a"]
    assert [(item["action"], item["max_parallelism"]) for item in renamed] == [("changed", 128)]
    assert report.target == f"{tmp_path}/renamed-orders-a-{report.run_id}"
    (base,) = report.inputs
    assert (base["name"], base["format"], base["path"]) == ("base", "snapshot", SHOP)
    assert len(base["version"]["metadata_sha256"]) == 64
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_repeated_does_nothing(tmp_path: Path) -> None:
    first = stateproc.run_job(_job(tmp_path))
    assert first.status == "written"
    assert first.write is not None and first.write["target"] == first.target
    assert {item["uid"] for item in first.write["operators"]} >= {"orders-a"}
    written = _files(tmp_path)
    assert _rows(first.target, "orders-a") == _rows(SHOP, "orders-per-customer")
    second = stateproc.run_job(_job(tmp_path))
    assert (second.status, second.target, second.write) == ("unchanged", first.target, first.write)
    assert _files(tmp_path) == written
    manifest = json.loads((Path(first.target) / MANIFEST).read_text())
    assert (manifest["job"], manifest["finished"], manifest["fingerprint"]) == ("rename", True, first.fingerprint)
    assert stateproc.open(first.target).verify().problems == ()


def test_another_definition_has_another_fingerprint_and_a_run_id_can_be_given(tmp_path: Path) -> None:
    one = stateproc.run_job(_job(tmp_path), plan=True)
    other = stateproc.run_job(_job(tmp_path), variables={"to": "orders-b"}, plan=True)
    given = stateproc.run_job(_job(tmp_path), variables={"run_id": "nightly-7"}, plan=True)
    assert one.fingerprint == given.fingerprint != other.fingerprint
    assert given.target == f"{tmp_path}/renamed-orders-a-nightly-7"


def test_what_does_not_decide_on_the_contents_does_not_decide_on_the_fingerprint(tmp_path: Path) -> None:
    one = stateproc.run_job(_job(tmp_path), plan=True)
    same = stateproc.run_job(_job(tmp_path, report=f"{tmp_path}/r", latest=f"{tmp_path}/l", description="x"), plan=True)
    assert one.fingerprint == same.fingerprint


@pytest.mark.parametrize(("overwrite", "status"), [("never", None), ("changed", "written"), ("always", "written")])
def test_a_snapshot_in_the_target(tmp_path: Path, overwrite: str, status: str | None) -> None:
    target = {"path": f"{tmp_path}/fixed", "overwrite": overwrite}
    stateproc.run_job(_job(tmp_path, target={**target, "overwrite": "never"}))
    job = _job(tmp_path, target=target)
    before = _files(tmp_path)
    if status is None:
        with pytest.raises(InvalidOption, match="which job 'rename' wrote as run"):
            stateproc.run_job(job, variables={"to": "orders-b"})
        assert _files(tmp_path) == before
    else:
        assert stateproc.run_job(job, variables={"to": "orders-b"}).status == status
        assert "orders-b" in stateproc.open(f"{tmp_path}/fixed", uids=["orders-b"])
        repeated = stateproc.run_job(job, variables={"to": "orders-b"})
        assert repeated.status == ("unchanged" if overwrite == "changed" else "written")


def test_a_snapshot_that_no_job_wrote_is_not_replaced(tmp_path: Path) -> None:
    stateproc.SavepointWriter.from_existing_savepoint(None, SHOP).write(tmp_path / "fixed")
    with pytest.raises(InvalidOption, match="which no run of a job has written"):
        stateproc.run_job(_job(tmp_path, target={"path": f"{tmp_path}/fixed"}))


def test_a_manifest_that_does_not_belong_to_the_snapshot_means_nothing(tmp_path: Path) -> None:
    job = _job(tmp_path, target={"path": f"{tmp_path}/fixed", "overwrite": "changed"})
    stateproc.run_job(job)
    manifest = (tmp_path / "fixed" / MANIFEST).read_bytes()
    stateproc.SavepointWriter.from_existing_savepoint(None, SHOP).write(tmp_path / "fixed", mode="overwrite")
    (tmp_path / "fixed" / MANIFEST).write_bytes(manifest)
    assert stateproc.run_job(job).status == "written"
    (tmp_path / "fixed" / MANIFEST).write_bytes(b'{"manifest_version": 1, "job": []}')
    assert stateproc.run_job(job).status == "written"


def test_a_run_that_ended_after_its_commit_is_completed(tmp_path: Path) -> None:
    job = _job(tmp_path, latest=f"{tmp_path}/latest")
    done = stateproc.run_job(job)
    manifest = Path(done.target, MANIFEST)
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "finished": False, "report": {}}))
    (tmp_path / "latest").unlink()
    assert stateproc.run_job(job).status == "unchanged"
    assert (tmp_path / "latest").read_text() == f"{done.target}\n"
    # A finished run does not move the pointer back.
    (tmp_path / "latest").write_text("newer\n")
    stateproc.run_job(job)
    assert (tmp_path / "latest").read_text() == "newer\n"


def test_the_pointer_of_one_job_is_the_base_of_another(tmp_path: Path) -> None:
    first = stateproc.run_job(_job(tmp_path, latest=f"{tmp_path}/latest"))
    base = {"latest": f"{tmp_path}/latest", "open": {"uids": ["orders-a"]}}
    drop = [{"drop-state": {"uid": "orders-a", "state": ["profile"]}}]
    second = stateproc.run_job(
        {"job": "drop", "base": base, "changes": drop, "target": {"path": f"{tmp_path}/dropped"}}
    )
    assert second.inputs[0]["path"] == first.target
    with pytest.raises(NotFound):
        stateproc.open(second.target, uids=["orders-a"]).state("orders-a", "profile")
    with pytest.raises(MissingFile, match="there is no such pointer"):
        stateproc.run_job({"job": "x", "base": {"latest": f"{tmp_path}/none"}, "target": {"path": f"{tmp_path}/y"}})


def test_a_check_answers_whether_a_job_restores_the_savepoint(tmp_path: Path) -> None:
    report = stateproc.run_job(_job(tmp_path, checks=[{"restores": "2.3"}]))
    (check,) = report.checks
    assert (check.name, check.passed) == ("restores in Flink 2.3", True)
    assert check.found.endswith(" states are restored")
    like = {"restores": "1.20", "like": report.target, "name": "fits"}
    target = {"path": f"{tmp_path}/other"}
    renamed = {"rename-state": {"uid": "orders-a", "state": "profile", "to": "other"}}
    base = {"path": report.target, "open": {"uids": ["orders-a"]}}
    outcome = execute_job({"job": "x", "base": base, "changes": [renamed], "target": target, "checks": [like]})
    assert isinstance(outcome.error, CheckFailed)
    assert " other: dropped (the job declares no state of this name" in str(outcome.error)
    assert not Path(f"{tmp_path}/other").exists()


EXPECTED = {"uid": "orders-a", "key": "Long", "states": []}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"backend": "hashmap"}, ""),
        ({"claim_mode": "CLAIM"}, ""),
        ({"expect": {"operators": [EXPECTED]}}, "dropped (the job has no operator with this uid"),
        ({"expect": {"operators": [{**EXPECTED, "key": "String"}]}}, "profile: refused (key: Long → String)"),
    ],
)
def test_a_check_of_a_job_that_is_described(said: dict[str, Any], found: str, tmp_path: Path) -> None:
    outcome = execute_job(_job(tmp_path, checks=[{"restores": "1.20", **said}]))
    (check,) = outcome.report.checks
    assert check.passed is (not found) and found in check.found, check.found
    assert Path(outcome.report.target).exists() is (not found)


def test_a_check_reads_the_plan_of_the_new_query(tmp_path: Path) -> None:
    with tarfile.open(VECTORS / "wider-columns.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    old, new = (str(tmp_path / "wider-columns" / f"{name}.json") for name in ("old", "new"))
    job = {
        "job": "evolve",
        "base": {"path": str(tmp_path / "wider-columns" / "savepoint")},
        "changes": [{"evolve": {"from_plan": old, "to_plan": new}}],
        "target": {"path": str(tmp_path / "next")},
    }
    outcome = execute_job({**job, "checks": [{"restores": "2.3", "to_plan": old}]})
    assert isinstance(outcome.error, CheckFailed) and "accState: refused" in str(outcome.error)
    report = stateproc.run_job({**job, "checks": [{"restores": "2.3", "to_plan": new}]})
    assert [check.passed for check in report.checks] == [True]


def test_checks_decide_before_there_is_a_savepoint(tmp_path: Path) -> None:
    states = {"state": "profile", "uid": "orders-a"}
    holds = [{**states, "min": 300, "max": 300}, {"sql": "SELECT count(*) = 300 FROM profile", "on": "target"}]
    report = stateproc.run_job(_job(tmp_path, checks=holds))
    assert [(item.passed, item.found) for item in report.checks] == [
        (True, "300 rows, at least 300 and at most 300 expected"),
        (True, "true"),
    ]
    fails = [*holds, {**states, "min": 301, "name": "enough"}]
    before = _files(tmp_path)
    outcome = execute_job(_job(tmp_path, checks=fails, report=f"{tmp_path}/report.json"))
    assert isinstance(outcome.error, CheckFailed)
    assert "enough: 300 rows, at least 301 expected" in str(outcome.error)
    saved = json.loads((tmp_path / "report.json").read_text())
    assert (saved["status"], [item["passed"] for item in saved["checks"]]) == ("failed", [True, True, False])
    (tmp_path / "report.json").unlink()
    assert _files(tmp_path) == before
    assert not Path(outcome.report.target).exists()


@pytest.mark.parametrize(
    ("sections", "error", "says"),
    [
        ({"base": {"path": "/nowhere/at/all"}}, MissingFile, "/nowhere/at/all"),
        ({"changes": [{"drop-operator": {"uid": "ordrs"}}]}, NotFound, "no operator 'ordrs'"),
        (
            {"changes": [{"ttl-purge": {"uid": "orders-per-customer", "state": "profile", "ttl": "soon"}}]},
            InvalidOption,
            "changes[0]",
        ),
        (
            {"operators": [{"uid": "a", "states": [{"kind": "value", "name": "v", "source": "x"}]}]},
            InvalidOption,
            "there is no source 'x'",
        ),
        ({"checks": [{"sql": "SELECT 1", "on": "target"}]}, InvalidOption, "is 1, no boolean"),
        ({"checks": [{"sql": "SELECT key = 1 FROM profile", "on": "target"}]}, InvalidOption, "not one row"),
        (
            {"sources": {"a": {"sql": "SELECT * FROM b"}, "b": {"sql": "SELECT * FROM a"}}},
            InvalidOption,
            "in a circle: a, b",
        ),
        ({"sources": {"a": {"sql": "COPY x TO '/tmp/y'"}}}, InvalidOption, "one SELECT"),
        (
            {"checks": [{"sql": "SELECT count(*) = 1 FROM profile"}]},
            InvalidOption,
            "checks[0]: the query reads sources",
        ),
        ({"metrics": [{"command": ["true"]}]}, InvalidOption, "--allow-hooks"),
        ({"latest": "/tmp/${secret:NAME}"}, InvalidOption, "latest: a path that a run prints contains a secret"),
        ({"base": {"path": SHOP, "open": {"plugins": ["antigravity"]}}}, InvalidOption, "--allow-hooks"),
    ],
)
def test_what_is_refused(tmp_path: Path, sections: dict[str, Any], error: type[SnapshotError], says: str) -> None:
    with pytest.raises(error) as caught:
        stateproc.run_job(_job(tmp_path, **sections))
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_queries_read_the_sources_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2,y\n")
    (tmp_path / "other.csv").write_text("id\n7\n")
    sources = {
        "rows": {"format": "csv", "path": f"{tmp_path}/a.csv"},
        "profiles": {"snapshot": SHOP, "uid": UID, "state": "profile", "open": {"uids": [UID]}},
        "both": {"sql": "SELECT r.name, p.value.vip FROM rows r JOIN profiles p ON p.key = r.id"},
    }
    checks = [{"rows": "both", "min": 2, "max": 2}, {"unique": "rows", "columns": ["id"]}]
    report = stateproc.run_job(_job(tmp_path, sources=sources, checks=checks))
    assert [item.passed for item in report.checks] == [True, True]
    assert {item["name"]: item.get("files") for item in report.inputs} == {"base": None, "rows": 1, "profiles": None}
    for query in (
        f"SELECT count(*) = 1 FROM read_csv('{tmp_path}/other.csv')",
        f"SELECT true FROM '{tmp_path}/other.csv'",
    ):
        with pytest.raises(SnapshotError, match=r"disabled by configuration|does not exist"):
            stateproc.run_job(_job(tmp_path, sources=sources, checks=[{"sql": query}]))
    # Another version of an input is another run.
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2,y\n3,z\n")
    assert (
        stateproc.run_job(_job(tmp_path, sources=sources, checks=checks), plan=True).fingerprint != report.fingerprint
    )


def test_hooks_receive_the_report(tmp_path: Path) -> None:
    command = [sys.executable, "-c", f"import sys; open({str(tmp_path / 'hook.json')!r}, 'w').write(sys.stdin.read())"]
    hooks = [
        {"command": command},
        {"command": [sys.executable, "-c", "exit(3)"]},
        {"python": "json:dumps", "on": "failure"},
    ]
    report = stateproc.run_job(_job(tmp_path / "x", metrics=hooks), allow_hooks=True)
    assert json.loads((tmp_path / "hook.json").read_text())["status"] == "written"
    assert len(report.warnings) == 1 and "failed: exit status 3" in report.warnings[0]


def test_secrets_appear_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEPROC_SECRET_PLACE", "hunter2")
    monkeypatch.setenv("STATEPROC_SECRET_TOKEN", "swordfish")
    (tmp_path / "hunter2").mkdir()
    base = {"path": SHOP, "open": {"uids": ["orders-per-customer"], "storage_options": {"token": "${secret:TOKEN}"}}}
    sources = {"rows": {"format": "csv", "path": f"{tmp_path}/${{secret:PLACE}}/a.csv"}}
    job = _job(
        tmp_path, base=base, sources=sources, report=f"{tmp_path}/report.json", checks=[{"rows": "rows", "min": 1}]
    )
    failed = execute_job(job)
    assert isinstance(failed.error, MissingFile)
    assert failed.error.__cause__ is None and "${secret:PLACE}" in str(failed.error)
    (tmp_path / "hunter2/a.csv").write_text("id\n1\n")
    done = execute_job(job)
    assert done.report.status == "written"
    texts = [str(failed), repr(done), str(failed.error), (tmp_path / "report.json").read_text()]
    texts += [Path(done.report.target, MANIFEST).read_text(), json.dumps(done.report.to_dict())]
    assert not any(secret in text for secret in ("hunter2", "swordfish") for text in texts)


_STEPWISE = """
import os, signal, sys
import stateproc

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}
job, place = sys.argv[1:]

def run(step):
    seen = 0
    def before(event, arguments):
        nonlocal seen
        writes = event in CHANGES or (event == "open" and "w" in str(arguments[1]))
        if not writes or not str(arguments[0]).startswith(place):
            return
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1
    sys.addaudithook(before)
    assert stateproc.run_job(job, variables={"step": str(step)}).status == "written"

step = 0
while True:
    child = os.fork()
    if not child:
        run(step)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        print(step, os.waitstatus_to_exitcode(status))
        break
    step += 1
"""
"""Kill a run before its first, second … change to files, until one ends by itself; print its number and status."""


def test_a_run_killed_at_any_step_leaves_no_partial_savepoint_and_the_next_one_succeeds(tmp_path: Path) -> None:
    file, place = tmp_path / "job.json", tmp_path / "out"
    old = {"job": "old", "base": {"path": SHOP}, "target": {"path": f"{place}/${{step}}/target"}}
    job = {
        "variables": {"step": ""},
        "changes": [{"rescale": {"max_parallelism": 64}}],
        "latest": f"{place}/${{step}}/latest",
    }
    file.write_text(json.dumps(old | job))
    command = [sys.executable, "-c", _STEPWISE, str(file), str(place)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    last, status = map(int, done.stdout.split())
    assert status == 0, done.stderr
    found = set()
    for step in range(last):
        target = place / str(step) / "target"
        left = {path.name for path in target.iterdir()} if target.exists() else set()
        if "_metadata" in left:
            assert stateproc.open(str(target)).verify().problems == ()
        next_run = stateproc.run_job(file, variables={"step": str(step)})
        assert next_run.status == ("unchanged" if "_metadata" in left else "written"), (step, left)
        found.add((next_run.status, any(name.startswith(".stateproc-") for name in left)))
        assert [name for name in _files(target) if name.startswith(".")] == [], (step, left)
        named = stateproc.open(str(target))
        assert named.verify().problems == ()
        assert (target.parent / "latest").read_text() == f"{target}\n"
        assert stateproc.run_job(file, variables={"step": str(step)}).status == "unchanged"
    assert found == {("written", False), ("written", True), ("unchanged", True), ("unchanged", False)}


def _killed_runs(job: Path, target: Path, check: Callable[[], None]) -> list[str]:
    """Kill runs at random moments of their writing; return what each had left: nothing, files or a savepoint."""
    command = [sys.executable, "-m", "stateproc", "run", str(job)]
    moments = random.Random(14)
    found = []
    for _ in range(_KILLS):
        shutil.rmtree(target, ignore_errors=True)
        run = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not target.exists() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, _WRITE_SECONDS))
        run.kill()
        run.wait()
        names = [path.name for path in target.iterdir()]
        found.append("savepoint" if "_metadata" in names else "files" if names else "nothing")
        check()
    return found


@pytest.mark.exhaustive
def test_a_killed_run_leaves_no_partial_savepoint_and_the_next_one_succeeds(tmp_path: Path) -> None:
    source = tmp_path / "source"
    stateproc.SavepointWriter.from_existing_savepoint(None, SHOP).write(source)
    before, target = _files(source), tmp_path / "target"
    file = tmp_path / "job.json"
    changes = [{"rescale": {"max_parallelism": 512}}, {"convert": {"to": "native-rocksdb"}}]
    job = {"job": "big", "base": {"path": str(source)}, "changes": changes, "target": {"path": str(target)}}
    file.write_text(json.dumps({**job, "latest": f"{tmp_path}/latest"}))

    def check() -> None:
        """The source is as before; a savepoint is complete; the next run succeeds, and the one after does nothing."""
        assert _files(source) == before
        if (target / "_metadata").exists():
            assert stateproc.open(str(target)).verify().problems == ()
        assert stateproc.run_job(file).status in ("written", "unchanged")
        assert stateproc.open(str(target)).verify().problems == ()
        assert [name for name in _files(target) if name.startswith(".")] == []
        assert stateproc.run_job(file).status == "unchanged"
        assert (tmp_path / "latest").read_text() == f"{target}\n"

    found = _killed_runs(file, target, check)
    assert len(found) == _KILLS and "files" in found, found


def test_settings_of_the_target(tmp_path: Path) -> None:
    target = {"path": f"{tmp_path}/set", "checkpoint_id": 42, "max_parallelism": 64, "format": "native-hashmap",
              "compressed": True, "flink_version": "2.3", "parallelism": {"orders-a": 3}, "verify": True}  # fmt: skip
    report = stateproc.run_job(_job(tmp_path, target=target))
    found = stateproc.open(report.target, uids=["orders-a"])
    operator = found.operator("orders-a")
    assert (found.metadata.checkpoint_id, found.metadata.version) == (42, 6)
    assert (operator.max_parallelism, operator.parallelism) == (64, 3)
    assert _rows(report.target, "orders-a") == [
        {**row, "key_group": found_row["key_group"]}
        for row, found_row in zip(_rows(SHOP, UID), _rows(report.target, "orders-a"), strict=True)
    ]


@pytest.mark.sampled
def test_of_two_runs_to_one_target_one_wins(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    changes = [{"convert": {"to": "native-rocksdb"}}, {"rescale": {"max_parallelism": 1024}}]
    job = {"job": "two", "base": {"path": SHOP}, "changes": changes, "target": {"path": f"{tmp_path}/target"}}
    file.write_text(json.dumps(job))
    command = [sys.executable, "-m", "stateproc", "run", str(file)]
    runs = [subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) for _ in range(3)]
    ended = [(run.communicate()[1], run.returncode) for run in runs]
    assert 0 in [status for _, status in ended]
    for error, status in ended:
        assert status in (0, 2, 3), error
        if status:
            assert "error: " in error and "Traceback" not in error
    assert stateproc.open(str(tmp_path / "target")).verify().problems == ()
    assert stateproc.run_job(file).status == "unchanged"
