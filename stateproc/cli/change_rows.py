"""What ``stateproc diff`` does with changed rows: write them to a file, and keep some of each state to be shown."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa

from stateproc.cli.row_output import row_writer
from stateproc.codec.arrow_arrays import repeated_text
from stateproc.diff.change_rows import CHANGE_TYPE, KEY_COLUMNS, UPDATE_AFTER, UPDATE_BEFORE
from stateproc.diff.structure import OperatorPair, StatePair
from stateproc.row_formats.json_values import json_lines, json_values
from stateproc.row_formats.row_writers import RowWriter

_FACTS = (("key_group", pa.int32()), ("subtask", pa.int32()), ("service", pa.string()), ("timestamp", pa.int64()))
_TEXTS = ("key", "namespace", "map_key", "value")
_NAMES = ("operator", "state")


class ChangeFile:
    """Writes changed rows with the operator and the state that they belong to.

    With the rows of one state, columns have its types. Rows of several states have key, namespace, map_key and value as
    JSON text, because their types differ; JSON lines have each row as it is.

    Args:
        stream: Where to write.
        format_name: jsonl, csv, parquet or arrow.
        single: The columns of the only state; None if there are several.
    """

    def __init__(self, stream: BinaryIO, format_name: str, single: pa.Schema | None) -> None:
        self._is_text = single is None and format_name != "jsonl"
        self._writer: RowWriter = row_writer(format_name, stream, _TEXT_SCHEMA if single is None else _named(single))
        self.rows = 0

    def write(self, operator: OperatorPair, state: StatePair, batch: pa.RecordBatch) -> None:
        """Write changed rows of a state."""
        if self._is_text:
            batch = _as_text(batch)
        names = [repeated_text(text, len(batch)) for text in (operator.uid or operator.operator_id, state.name)]
        columns = [batch.column(0), *names, *batch.columns[1:]]
        fields = [batch.schema.field(0), *(pa.field(name, pa.string(), nullable=False) for name in _NAMES)]
        schema = pa.schema([*fields, *list(batch.schema)[1:]])
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        self.rows += len(batch)

    def __enter__(self) -> ChangeFile:
        self._writer.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.__exit__(kind, error, at)


def _named(schema: pa.Schema) -> pa.Schema:
    kind = pa.field(CHANGE_TYPE, pa.string(), nullable=False)
    return pa.schema([kind, *(pa.field(name, pa.string(), nullable=False) for name in _NAMES), *schema])


_TEXT_COLUMNS = pa.schema([*_FACTS, *((name, pa.string()) for name in _TEXTS)])
_TEXT_SCHEMA = _named(_TEXT_COLUMNS)


def _as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of any state in the columns that all states have; what has none of them is in the value."""
    known = {CHANGE_TYPE, *(name for name, _ in _FACTS), *_TEXTS}
    others = [name for name in batch.schema.names if name not in known]
    columns = [batch.column(0)]
    for field in _TEXT_COLUMNS:
        at = batch.schema.get_field_index(field.name)
        if field.name == "value" and at < 0 and others:
            columns.append(_texts(list(json_lines(batch.select(others)))))
        elif at < 0:
            columns.append(pa.nulls(len(batch), field.type))
        elif field.name in _TEXTS:
            columns.append(_texts([_json(value) for value in json_values(batch.column(at))]))
        else:
            columns.append(batch.column(at).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([batch.schema.field(0), *_TEXT_COLUMNS]))


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _texts(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def shown_changes(batch: pa.RecordBatch, limit: int) -> list[dict[str, Any]]:
    """Return the first changes of a batch: ``change``, the columns of the key, and the value ``before`` and ``after``.

    Args:
        batch: Changed rows of a state.
        limit: At most so many changes; an update is one.
    """
    rows = batch.slice(0, 2 * limit)
    names = [name for name in rows.schema.names if name != CHANGE_TYPE]
    columns = {name: json_values(rows.column(name)) for name in names}
    keys = [name for name in KEY_COLUMNS if name in names]
    values = [name for name in names if name not in (*keys, "key_group", "subtask", "last_access")]
    found: list[dict[str, Any]] = []
    for row, change in enumerate(rows.column(CHANGE_TYPE).to_pylist()):
        value = _value({name: columns[name][row] for name in values})
        if change == UPDATE_AFTER:
            found[-1]["after"] = value
            continue
        if len(found) == limit:
            break
        is_after = change == "insert"
        shown = {"change": "update" if change == UPDATE_BEFORE else change}
        shown |= {name: columns[name][row] for name in keys}
        shown |= {"before": None if is_after else value, "after": value if is_after else None}
        found.append(shown)
    return found


def _value(values: dict[str, Any]) -> Any:
    return next(iter(values.values())) if set(values) == {"value"} else values or None
