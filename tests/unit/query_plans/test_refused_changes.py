"""Changes that evolve refuses, one of each kind: real Flink fails with the state as it is, or its results are wrong.

`tests/helpers/flink/refused_changes.py` has the queries, and lets Flink 1.20 and 2.3 run them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import SnapshotError
from stateproc.query_plans.rank_order import ADDED_ROWS, ALL_ROWS
from tests.helpers.flink.changed_plans import WRONG, Recorded, names
from tests.helpers.flink.refused_changes import ARCHIVE, CHANGES, FAILS, STALE, documented, recorded
from tests.helpers.paths import ROOT

READS_EVERY_MODE = False
KINDS = {change.name: change for change in CHANGES}


def found(name: str) -> Recorded:
    (one,) = [one for one in recorded() if f"{one.release}/{one.name}" == name]
    return one


def test_each_kind_was_recorded_by_each_release() -> None:
    assert sorted(names(ARCHIVE)) == sorted(f"{release}/{one.name}" for one in CHANGES for release in one.releases)


def test_the_how_to_lists_them() -> None:
    assert documented() in (ROOT / "docs/howto/change-a-query.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names(ARCHIVE))
def test_what_is_refused_fails_or_is_wrong(name: str) -> None:
    one = found(name)
    change = KINDS[one.name]
    outcome = one.outcome if one.outcome in (WRONG, STALE) else FAILS
    assert outcome == change.outcome, one.outcome
    with pytest.raises(SnapshotError, match=change.words):
        evolved(one, **change.options).plan()


@pytest.mark.parametrize("name", [one for one in names(ARCHIVE) if KINDS[one.partition("/")[2]].outcome == STALE])
def test_what_is_only_stale_goes_on_if_results_stay(name: str) -> None:
    """Flink is right with all that comes after the restore, and no one takes back what the old query emitted."""
    evolved(found(name), emitted="keep").plan()


def evolved(one: Recorded, **options: object) -> SavepointWriter:
    writer = SavepointWriter.from_existing_savepoint(None, str(one.folder / "savepoint"))
    return writer.evolve(str(one.folder / "old.json"), str(one.folder / "new.json"), **options)  # type: ignore[arg-type]


def test_all_rows_are_found_by_a_wider_order_where_those_of_ranks_are_kept(tmp_path: Path) -> None:
    one = found("2.3/wider order of TopN over changes")
    plan = json.loads((one.folder / "new.json").read_text())
    (rank,) = [node for node in plan["nodes"] if node["type"].startswith("stream-exec-rank")]
    rank["rankStrategy"] = {"type": "AppendFast"}
    writer = SavepointWriter.from_existing_savepoint(None, str(one.folder / "savepoint"))
    target = writer.evolve(str(one.folder / "old.json"), plan).write(str(tmp_path / "target"))
    uid = f"{rank['id']}_rank"
    both = [(str(one.folder / "savepoint"), ALL_ROWS), (target, ADDED_ROWS)]
    before, after = (stateproc.open(path).operator(uid).state(state).to_arrow() for path, state in both)
    assert [before.column("value").to_pylist(), pa.int32()] == [after.column("value").to_pylist(), _order(before)]
    assert _order(after) == pa.int64()


def _order(rows: pa.Table) -> pa.DataType:
    return rows.schema.field("value").type.key_type.field(0).type
