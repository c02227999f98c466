"""Sources that a release does not have, or whose splits it cannot read."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.cli import main
from stateproc.compatibility.verdicts import OperatorCheck, Verdict
from tests.helpers.cases import case_snapshots
from tests.helpers.document_runs import unpack_connector_savepoints
from tests.helpers.writers.source_savepoints import UID, mysql_savepoint, old_postgres_savepoint, postgres_savepoint

KAFKA = next(item.path for item in case_snapshots() if item.case == "kafka-consumer")


def checked(path: Path | str, uid: str, release: str) -> OperatorCheck:
    check = stateproc.open(path, uids=[uid]).check(flink_version=release)
    return next(item for item in check.operators if uid in (item.uid, item.uid_hash))


def test_flink_2_has_no_flink_kafka_consumer(tmp_path: Path) -> None:
    before, found = (checked(KAFKA, "old-kafka", release) for release in ("1.20", "2.3"))
    assert before.verdict is Verdict.AS_IS
    assert found.verdict is Verdict.REFUSED
    assert "KafkaSource takes its place" in found.reasons[0]
    # The fix is a command that runs, once its words in capitals are replaced.
    renamed = tmp_path / "named"
    writer = SavepointWriter.from_existing_savepoint(None, KAFKA, {"uids": ["old-kafka"]})
    writer.set_kafka_offsets("old-kafka", remove=["größe:0", "größe:1"]).write(renamed)
    fix = checked(renamed, "old-kafka", "2.3").fix or ""
    command = fix.replace("TARGET", str(tmp_path / "moved")).replace("NEW_UID", "orders")
    assert main([*shlex.split(command)[1:], "--uids", "old-kafka", "--json"]) == 0
    assert checked(tmp_path / "moved", "orders", "2.3").verdict is Verdict.AS_IS


def test_flink_2_has_no_flink_kinesis_consumer(tmp_path: Path) -> None:
    unpack_connector_savepoints(tmp_path)
    path = tmp_path / "legacy-kinesis"
    uid = next(item.operator_id for item in stateproc.open(path).operators if item.operator_states)
    assert checked(path, uid, "1.20").verdict is Verdict.AS_IS
    found = checked(path, uid, "2.3")
    assert found.verdict is Verdict.REFUSED
    assert "--stream-arn" in (found.fix or "")


def test_splits_of_flink_cdc_2_are_refused_for_flink_2_and_their_fix_works(tmp_path: Path) -> None:
    path = old_postgres_savepoint(tmp_path / "old")
    assert checked(path, UID, "1.20").verdict is Verdict.AS_IS
    found = checked(path, UID, "2.3")
    assert found.verdict is Verdict.REFUSED
    assert (found.exception or "").startswith("java.lang.ClassNotFoundException: com.ververica")
    command = (found.fix or "").replace("TARGET", str(tmp_path / "new"))
    assert main([*shlex.split(command)[1:], "--uids", UID, "--json"]) == 0
    assert checked(tmp_path / "new", UID, "2.3").verdict is Verdict.AS_IS


@pytest.mark.parametrize("write", [mysql_savepoint, postgres_savepoint])
def test_other_sources_restore(write: object, tmp_path: Path) -> None:
    assert callable(write)
    assert checked(write(tmp_path / "s", UID), UID, "2.3").verdict is Verdict.AS_IS
