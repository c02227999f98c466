"""Rows to a file or to the terminal: one writer per format, each streaming batch by batch."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa

from stateproc.cli.jsonable import json_lines, jsonable
from stateproc.cli.parquet_columns import parquet_batch, parquet_schema


class Writer(ABC):
    """A context that writes batches of one schema to a binary stream."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self.stream = stream
        self.schema = schema

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None:
        """Write what stands behind the last row."""
        self.stream.flush()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()


class JsonLines(Writer):
    """One JSON object a line."""

    def write(self, batch: pa.RecordBatch) -> None:
        text = "".join(line + "\n" for line in json_lines(batch))
        self.stream.write(text.encode("utf-8", "surrogatepass"))


class Csv(Writer):
    """Comma-separated, with a header; structs, lists, maps as JSON text; missing is empty."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        self.stream.write((",".join(_quoted(name) for name in schema.names) + "\r\n").encode())

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [[_cell(value) for value in jsonable(column)] for column in batch.columns]
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


class Parquet(Writer):
    """Parquet, zstd."""

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
        self.close()  # also after an error: it would write to the closed file later otherwise


class Arrow(Writer):
    """Arrow's IPC file format; in a pipe its stream format."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        make = pa.ipc.new_file if stream.seekable() else pa.ipc.new_stream
        self._writer = make(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class Table(Writer):
    """A table for people; holds its rows, so it is for a bounded number of them."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def close(self) -> None:
        from stateproc.cli.render.rows import rows_table
        from stateproc.cli.render.terminal import show

        show(rows_table(self.schema, self._batches), None if self.stream is sys.stdout.buffer else self.stream)


WRITERS: dict[str, type[Writer]] = {
    "table": Table, "jsonl": JsonLines, "csv": Csv, "parquet": Parquet, "arrow": Arrow,
}  # fmt: skip
