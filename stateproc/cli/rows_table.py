"""Show rows as a table on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from rich import box
from rich.table import Table
from rich.text import Text

from stateproc.cli.terminal import show
from stateproc.row_formats.json_values import json_values
from stateproc.row_formats.row_writers import RowWriter

_MAX_WIDTH = 100
"""Characters of a cell; longer ones are cut."""


def rows_table(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Table:
    """Return a table: numbers aligned to the right, nulls as a dash, control characters replaced."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for field in schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(Text(field.name, style="bold"), justify="right" if number else "left", overflow="fold")
    for batch in batches:
        for row in zip(*(json_values(column) for column in batch.columns), strict=True):
            table.add_row(*(cell(value) for value in row))
    return table


def cell(value: Any) -> Text:
    """Return a value as the text of a cell: nulls as a dash, control characters replaced, long text cut."""
    if value is None:
        return Text("–", style="dim")
    text = value if isinstance(value, str) else _compact(value)
    printable = "".join(sign if sign.isprintable() else "�" if sign != "\n" else "⏎" for sign in text)
    return Text(printable if len(printable) <= _MAX_WIDTH else printable[: _MAX_WIDTH - 1] + "…")


def _compact(value: Any) -> str:
    """Return structs, lists and maps as text without JSON's quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_inner(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        if value and all(isinstance(item, dict) and set(item) == {"key", "value"} for item in value):
            return "{" + ", ".join(f"{_inner(item['key'])} → {_inner(item['value'])}" for item in value) + "}"
        return "[" + ", ".join(_inner(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _inner(value: Any) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else _compact(value)


# Write rows as a table for a terminal.


class TableWriter(RowWriter):
    """Prints a table. It keeps all rows in memory to align the columns."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def close(self) -> None:
        show(rows_table(self.schema, self._batches), None if self.stream is sys.stdout.buffer else self.stream)
