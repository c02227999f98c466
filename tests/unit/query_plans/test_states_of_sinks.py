"""The rows that a sink with a primary key keeps are filled from arrays of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc.errors import InvalidRows, UnsupportedSnapshot
from stateproc.query_plans.node_states import node_states
from stateproc.query_plans.plan_file import read_plan
from tests.unit.query_plans.test_node_states import edited, filled, values

SINK = "273_upsert-materialize"


def test_rows_of_a_sink_keep_their_order(tmp_path: Path) -> None:
    rows = [{"customer": 2, "name": "Ann", "city": None}, {"city": "Rome", "name": "Ann", "customer": 1}]
    made = filled(SINK, pa.table({"name": ["Ann"], "rows": [rows]}), tmp_path)
    assert values(made, "values") == [rows]


@pytest.mark.parametrize(("rows", "text"), [([], "or empty"), (None, "cannot be null")])
def test_a_key_without_rows_is_refused(rows: Any, text: str, tmp_path: Path) -> None:
    row = pa.struct([("name", pa.string()), ("customer", pa.int64()), ("city", pa.string())])
    table = pa.table({"name": ["Ann"], "rows": pa.array([rows], pa.list_(row))})
    with pytest.raises(InvalidRows, match=f"column 'rows' {text}" if rows is None else text):
        filled(SINK, table, tmp_path)


METADATA = {"kind": "METADATA", "dataType": "BIGINT", "isVirtual": False}


def changed(attributes: dict[str, Any], schema: dict[str, Any] | None = None, columns: int = 0) -> dict[str, Any]:
    def change(node: dict[str, Any]) -> None:
        node.update(attributes)
        own = node["dynamicTableSink"]["table"]["resolvedTable"]["schema"]
        own.update(schema or {})
        own["columns"] += [{"name": f"m{at}", **METADATA} for at in range(columns)]

    return edited(change, SINK)


V2 = {"type": "stream-exec-sink_2"}


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (changed({"upsertMaterializeStrategy": "ADAPTIVE"}), "of materializers only the first .* that of ADAPTIVE"),
        (changed({"conflictStrategy": {"behavior": "ERROR"}}), "with ON CONFLICT DO ERROR"),
        (changed({}, {"primaryKey": None}), "does not have the primary key"),
        (changed(V2, columns=2), "several columns of metadata"),
        (changed({"requireUpsertMaterialize": False}), "its states are not filled from rows"),
    ],
)
def test_sinks_that_are_not_filled(plan: dict[str, Any], text: str) -> None:
    with pytest.raises(UnsupportedSnapshot, match=text):
        node_states(read_plan(plan), SINK)


@pytest.mark.parametrize(
    ("attributes", "columns", "kept"),
    [({}, 2, 3), (V2, 1, 4), (V2 | {"upsertMaterializeStrategy": "LEGACY"}, 0, 3)],
)
def test_rows_have_a_column_of_metadata_in_the_second_version(
    attributes: dict[str, Any], columns: int, kept: int
) -> None:
    (state,) = node_states(read_plan(changed(attributes, columns=columns)), SINK)
    assert state.value.serializer.type_name.count(", ") == kept - 1
