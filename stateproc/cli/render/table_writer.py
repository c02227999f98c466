"""Write rows as a table for a terminal."""

from __future__ import annotations

import sys
from typing import BinaryIO

import pyarrow as pa

from stateproc.cli.render.rows_table import rows_table
from stateproc.cli.render.terminal import show
from stateproc.row_formats.row_writers import RowWriter


class TableWriter(RowWriter):
    """Prints a table. It keeps all rows in memory to align the columns."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def close(self) -> None:
        show(rows_table(self.schema, self._batches), None if self.stream is sys.stdout.buffer else self.stream)
