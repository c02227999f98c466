"""Write rows to a stream batch by batch: one writer per format."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa

from stateproc.cli.json_values import json_lines, json_values
from stateproc.cli.parquet_columns import parquet_batch, parquet_schema


class RowWriter(ABC):
    """A context that writes batches of one schema to a binary stream."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self.stream = stream
        self.schema = schema

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""

    def close(self) -> None:
        """Write what follows the last row."""
        self.stream.flush()

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()


class JsonLinesWriter(RowWriter):
    """Writes one JSON object per line."""

    def write(self, batch: pa.RecordBatch) -> None:
        text = "".join(line + "\n" for line in json_lines(batch))
        self.stream.write(text.encode("utf-8", "surrogatepass"))


class CsvWriter(RowWriter):
    """Writes RFC 4180 with a header: structs, lists and maps as JSON text, nulls as nothing, empty text as ``""``.

    Neither csv (before Python 3.12) nor pyarrow.csv can write it: csv writes null and empty text alike, pyarrow.csv
    quotes every text.
    """

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        self.stream.write((",".join(_quoted(name) for name in schema.names) + "\r\n").encode())

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [[_cell(value) for value in json_values(column)] for column in batch.columns]
        lines = "".join(",".join(row) + "\r\n" for row in zip(*columns, strict=True))
        self.stream.write(lines.encode("utf-8", "surrogatepass"))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    if text == "" or any(sign in text for sign in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


class ParquetWriter(RowWriter):
    """Writes Parquet, compressed with zstd."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        from pyarrow import parquet

        self._columns = parquet_schema(schema)
        self._writer = parquet.ParquetWriter(stream, self._columns, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(parquet_batch(batch, self._columns))

    def close(self) -> None:
        self._writer.close()

    def __exit__(self, *_: object) -> None:
        # Also after an error: the garbage collector would otherwise write to the closed file.
        self.close()


class ArrowWriter(RowWriter):
    """Writes Arrow's IPC file format, or its stream format where the stream is a pipe, which cannot seek."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        make = pa.ipc.new_file if stream.seekable() else pa.ipc.new_stream
        self._writer = make(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class TableWriter(RowWriter):
    """Prints a table. It keeps all rows in memory to align the columns."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def close(self) -> None:
        from stateproc.cli.render.rows_table import rows_table
        from stateproc.cli.render.terminal import show

        show(rows_table(self.schema, self._batches), None if self.stream is sys.stdout.buffer else self.stream)


WRITERS: dict[str, type[RowWriter]] = {
    "table": TableWriter,
    "jsonl": JsonLinesWriter,
    "csv": CsvWriter,
    "parquet": ParquetWriter,
    "arrow": ArrowWriter,
}
