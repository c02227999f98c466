"""All keyed states of an operator as one table: every state's value stands in its key's row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from comparing import plain
from fixtures_check import fixtures

import stateproc
from stateproc.wide import by_key_group

CASES = (
    "1.20/kitchen-hashmap-canonical",
    "1.20/kitchen-hashmap-checkpoint",
    "1.20/kitchen-hashmap-canonical-snappy",
    "1.20/kitchen-rocksdb-incremental",
    "2.3/kitchen-hashmap-canonical",
)


def _by_key(table: pa.Table) -> dict[str, dict[str, Any]]:
    rows = table.to_pylist()
    found = {str(plain(row["key"])): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("uid", ["kitchen-long", "kitchen-string", "kitchen-tuple", "kitchen-ttl"])
def test_every_state_is_a_column(case: str, uid: str) -> None:
    fixture = next(item for item in fixtures() if item.name == case)
    operator = fixture.open().operator(uid)
    rows = _by_key(operator.wide().to_arrow())
    keys: set[str] = set()
    for state in operator.keyed_states:
        own = _by_key(state.to_arrow())
        keys |= own.keys()
        for key, row in rows.items():
            assert row[state.name] == own.get(key, {"value": None})["value"]
            if state.ttl:
                assert row[f"{state.name}_last_access"] == own.get(key, {}).get("last_access")
    assert rows.keys() == keys


def test_states_under_windows_are_joined_by_key_and_window() -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/windows-hashmap-canonical")
    operator = fixture.open().operator("tumbling-reduce")
    table = operator.wide().to_arrow()
    assert table.column_names == ["key_group", "key", "namespace", "count", "window-contents"]
    assert table.num_rows == operator.state("count").to_arrow().num_rows
    assert table.column("count").null_count == table.column("window-contents").null_count == 0


def test_no_flattening_and_no_unknown_namespace() -> None:
    fixture = next(item for item in fixtures() if item.name == "1.20/windows-hashmap-canonical")
    operator = fixture.open().operator("tumbling-reduce")
    with pytest.raises(stateproc.InvalidOption, match="cannot be flattened"):
        operator.wide().schema(flatten=True)
    with pytest.raises(stateproc.InvalidOption, match="TimeWindow"):
        operator.wide("GlobalWindow")


def test_rows_are_cut_at_key_groups() -> None:
    batches = [pa.RecordBatch.from_pydict({"key_group": part}) for part in ([1, 1, 2], [2, 2], [], [5])]
    found = [(group, sum(len(part) for part in parts)) for group, parts in by_key_group(batches)]
    assert found == [(1, 2), (2, 3), (5, 1)]
