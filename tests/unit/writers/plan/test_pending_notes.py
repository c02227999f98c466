"""What plans say of files, manifests and transactions that a write would lose, on savepoints of real jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import stateproc
from stateproc import NotFound, SavepointWriter
from stateproc.reports.pending import summary
from tests.helpers.document_runs import unpack_connector_savepoints

COMMITTER = "b28acc58982414beb9e34fa13ba2def8"
"""The committer of the FileSink, which has 18 files of two subtasks."""


@pytest.fixture(scope="module")
def savepoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("connectors")
    unpack_connector_savepoints(folder)
    return folder


def notes(writer: SavepointWriter, target: Path) -> list[str]:
    return [note for note in writer.plan(str(target)).notes if "commit" in note]


def existing(savepoints: Path, name: str, **options: object) -> SavepointWriter:
    return SavepointWriter.from_existing_savepoint(None, str(savepoints / name), options)


def test_a_dropped_committer_loses_its_files(savepoints: Path, tmp_path: Path) -> None:
    writer = existing(savepoints, "filesink-1.20").remove_operator(COMMITTER)
    (note,) = notes(writer, tmp_path / "t")
    assert note.startswith(f"{COMMITTER}: 18 files to commit (18,380 bytes) are lost with the operator: file:/data/")
    assert note.endswith(" and 15 more")


def test_a_kept_committer_loses_nothing(savepoints: Path, tmp_path: Path) -> None:
    assert not notes(existing(savepoints, "filesink-1.20"), tmp_path / "t")
    writer = existing(savepoints, "filesource-1.20")
    operator = stateproc.open(savepoints / "filesource-1.20").operators[-1].operator_id
    assert not notes(writer.remove_operator(operator), tmp_path / "t")


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("iceberg-1.10.0", "2 manifests to commit (1,200 rows, 14,980 bytes)"),
        ("paimon-1.3.1", "4 files to commit (600 rows, 11,181 bytes)"),
        ("legacy-jdbc-xa-legacy", "2 XIDs to commit"),
    ],
)
def test_other_sinks(savepoints: Path, tmp_path: Path, name: str, lost: str) -> None:
    snapshot = stateproc.open(savepoints / name)
    (uid,) = set(snapshot.pending().column("operator").to_pylist())
    (note,) = notes(existing(savepoints, name).remove_operator(uid), tmp_path / "t")
    assert note.startswith(f"{uid}: {lost} are lost with the operator")


def test_what_is_pending_can_be_dropped(savepoints: Path, tmp_path: Path) -> None:
    writer = existing(savepoints, "filesink-1.20").drop_pending(COMMITTER)
    (note,) = notes(writer, tmp_path / "t")
    assert "18 files to commit (18,380 bytes) are dropped: no restore commits them" in note
    writer.write(str(tmp_path / "t"))
    written = stateproc.open(tmp_path / "t")
    assert summary(written.pending().to_pylist()) == "4 files in progress (1,914 bytes)"
    assert written.operator(COMMITTER).operator_states[0].elements == 0


def test_a_sink_without_something_to_commit_is_not_found(savepoints: Path) -> None:
    with pytest.raises(NotFound, match="sink with something to commit"):
        existing(savepoints, "filesource-1.20").drop_pending(
            stateproc.open(savepoints / "filesource-1.20").operators[0].operator_id
        )


def test_a_renamed_sink_needs_its_committer_renamed(savepoints: Path, tmp_path: Path) -> None:
    """The job looks for the committer of the new uid: it has to be renamed, too."""
    base = existing(savepoints, "filesink-1.20", uids=["sink", "Sink Committer: sink"])
    base.change_operator_identifier(COMMITTER, "Sink Committer: sink")
    base.change_operator_identifier("99f81c8b796ac910503cd5b0f1cd3d1d", "sink")
    base.write(str(tmp_path / "named"))
    writer = SavepointWriter.from_existing_savepoint(
        None, str(tmp_path / "named"), {"uids": ["sink", "Sink Committer: sink"]}
    )
    writer.change_operator_identifier("sink", "files")
    (note,) = notes(writer, tmp_path / "t")
    assert "unless 'Sink Committer: sink' is renamed to 'Sink Committer: files', too" in note
    writer.change_operator_identifier("Sink Committer: sink", "Sink Committer: files")
    assert not notes(writer, tmp_path / "t")
