"""A bootstrap shows its states, their types and the columns that fill them, without reading rows."""

from __future__ import annotations

import pyarrow as pa

from stateproc import OperatorBootstrap, types
from tests.helpers.page_reports import HOSTILE


def rows() -> pa.RecordBatchReader:
    """Rows that cannot be read."""
    schema = pa.schema([("key", pa.int64()), ("total", pa.float64()), ("tags", pa.list_(pa.string())),
                        ("counts", pa.map_(pa.string(), pa.int64())), ("timestamp", pa.int64())])  # fmt: skip

    def fail() -> pa.RecordBatch:
        raise AssertionError("rows are read")
        yield  # pragma: no cover

    return pa.RecordBatchReader.from_batches(schema, fail())


def test_states_are_listed_with_types_and_columns() -> None:
    bootstrap = OperatorBootstrap().value_state("sum", rows(), "total", ttl=True).list_state("tags", rows(), "tags")
    bootstrap.map_state("counts", rows(), "counts").event_time_timers(rows())
    bootstrap.operator_list_state("buffer", rows(), "total").union_list_state("all", rows(), "key", type=types.LONG)
    lines = repr(bootstrap).splitlines()
    assert lines[0] == "Bootstrap of 6 states, keys Long"
    assert lines[1] == "  value sum: Double, time to live, from key, total as value"
    assert lines[2] == "  list tags: List<String>, from key, tags as value"
    assert lines[3] == "  map counts: Map<String, Long>, from key, counts as value"
    assert lines[5] == "  operator list buffer: Double, from total as value"
    assert lines[6] == "  union list all: Long, from key as value"
    html = bootstrap._repr_html_()
    assert "Map&lt;String, Long&gt;" in html and "time to live" in html


def test_without_keyed_state_and_with_hostile_names() -> None:
    assert repr(OperatorBootstrap()) == "Bootstrap of 0 states"
    html = OperatorBootstrap().operator_list_state(HOSTILE, rows(), "total")._repr_html_()
    assert "<script" not in html
