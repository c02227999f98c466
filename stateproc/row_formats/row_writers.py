"""Write rows to a stream batch by batch: one writer per format."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa

from stateproc.row_formats.column_types import parquet_batch, parquet_schema
from stateproc.row_formats.json_values import json_lines, json_values

_ROW_GROUP_ROWS, _ROW_GROUP_BYTES = 256 << 10, 32 << 20
"""A row group of Parquet ends where it has this many rows or bytes in memory."""


class RowWriter(ABC):
    """A context that writes batches of one schema to a binary stream."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self.stream = stream
        self.schema = schema
        self.is_discarded = False

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""

    def close(self) -> None:
        """Write what follows the last row."""
        self.stream.flush()

    def discard(self) -> None:
        """Stop after an error; what was written is not complete."""
        self.is_discarded = True

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class JsonLinesWriter(RowWriter):
    """Writes one JSON object per line."""

    def write(self, batch: pa.RecordBatch) -> None:
        text = "".join(line + "\n" for line in json_lines(batch))
        self.stream.write(text.encode("utf-8", "surrogatepass"))


class JsonArrayWriter(RowWriter):
    """Writes one JSON array of objects."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        self._separator = "["

    def write(self, batch: pa.RecordBatch) -> None:
        for line in json_lines(batch):
            self.stream.write(f"{self._separator}\n{line}".encode("utf-8", "surrogatepass"))
            self._separator = ","

    def close(self) -> None:
        self.stream.write(b"[]\n" if self._separator == "[" else b"\n]\n")
        super().close()


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
    """Writes Parquet in row groups of about a quarter of a million rows.

    Without dictionaries: finding out that values hardly repeat takes longer than compressing them, and zstd finds most
    repetitions. Of rows of two longs, a double and a string, one core writes 6 million a second at zstd's level 1, 8.6
    million with snappy in files that are half as large again, and 4.5 million with dictionaries.
    """

    def __init__(self, stream: BinaryIO, schema: pa.Schema, compression: str = "zstd") -> None:
        super().__init__(stream, schema)
        from pyarrow import parquet

        self._columns = parquet_schema(schema)
        level = {"compression_level": 1} if compression == "zstd" else {}
        self._writer = parquet.ParquetWriter(
            stream, self._columns, compression=compression, use_dictionary=False, **level
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(parquet_batch(batch, self._columns))
        self._waiting_rows += len(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= _ROW_GROUP_ROWS or self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._write_row_group()

    def _write_row_group(self) -> None:
        table = pa.Table.from_batches(self._waiting, self._columns)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        self._writer.write_table(table, row_group_size=max(len(table), 1))

    def close(self) -> None:
        if self._waiting_rows:
            self._write_row_group()
        self._writer.close()

    def discard(self) -> None:
        # The garbage collector would otherwise write to the closed file.
        self._waiting, self._waiting_rows = [], 0
        self._writer.close()


class ArrowWriter(RowWriter):
    """Writes Arrow's IPC file format, or its stream format where the stream is a pipe, which cannot seek."""

    def __init__(
        self, stream: BinaryIO, schema: pa.Schema, compression: str | None = None, *, is_file: bool | None = None
    ) -> None:
        super().__init__(stream, schema)
        make = pa.ipc.new_file if (stream.seekable() if is_file is None else is_file) else pa.ipc.new_stream
        self._writer = make(stream, schema, options=pa.ipc.IpcWriteOptions(compression=compression))

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


WRITERS: dict[str, type[RowWriter]] = {
    "jsonl": JsonLinesWriter,
    "json": JsonArrayWriter,
    "csv": CsvWriter,
    "parquet": ParquetWriter,
    "arrow": ArrowWriter,
}
"""The formats of files."""
