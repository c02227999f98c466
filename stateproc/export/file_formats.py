"""The formats of exported files: their suffix, their columns, their compression and their writer."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from stateproc.errors import InvalidOption
from stateproc.row_formats.column_types import delta_type, parquet_batch, parquet_schema
from stateproc.row_formats.row_writers import ArrowWriter, CsvWriter, JsonLinesWriter, ParquetWriter, RowWriter

NONE = "none"
_GZIP_LEVEL = 1


class DeltaFileWriter(ParquetWriter):
    """Writes the Parquet files of a Delta table, with the types that Delta has."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema, compression: str = "zstd") -> None:
        self._stored = delta_schema(schema)
        super().__init__(stream, self._stored, compression)

    def write(self, batch: pa.RecordBatch) -> None:
        super().write(parquet_batch(batch, self._stored))


def delta_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a Delta table for rows of a schema; all of its columns may be null."""
    stored = parquet_schema(schema, delta_type)
    return pa.schema([field.with_nullable(True) for field in stored])


class _GzippedText(RowWriter):
    """Compresses what a writer of text writes."""

    def __init__(self, make: type[RowWriter], stream: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(stream, schema)
        # Without the time: the same rows are the same bytes.
        zipped: Any = gzip.GzipFile("", "wb", _GZIP_LEVEL, stream, mtime=0)
        self._zipped, self._inner = zipped, make(zipped, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._inner.write(batch)

    def close(self) -> None:
        self._inner.close()
        self._zipped.close()

    def discard(self) -> None:
        self._zipped.fileobj = None


@dataclass(frozen=True)
class ExportFormat:
    """A format.

    Attributes:
        suffix: The suffix of uncompressed files.
        compressions: The compressions; the first is the default.
        temporal: How dates and times are represented if nothing else is asked for.
        make: Makes a writer from a stream, a schema and a compression.
        is_delta: Whether a folder of files gets the log of a Delta table.
    """

    suffix: str
    compressions: tuple[str, ...]
    temporal: str
    make: Callable[[BinaryIO, pa.Schema, str], RowWriter]
    is_delta: bool = False

    def suffix_with(self, compression: str) -> str:
        """Return the suffix of files with a compression."""
        return self.suffix + (".gz" if compression == "gzip" and self.suffix in (".csv", ".jsonl") else "")


def _arrow(stream: BinaryIO, schema: pa.Schema, compression: str) -> RowWriter:
    return ArrowWriter(stream, schema, None if compression == NONE else compression, is_file=True)


def _text(make: type[RowWriter]) -> Callable[[BinaryIO, pa.Schema, str], RowWriter]:
    def writer(stream: BinaryIO, schema: pa.Schema, compression: str) -> RowWriter:
        return _GzippedText(make, stream, schema) if compression == "gzip" else make(stream, schema)

    return writer


_OF_PARQUET = ("snappy", "zstd", "lz4", "gzip", NONE)
"""snappy is the default: two cores write 8 million rows a second, of zstd 6.5, in files two thirds as large."""

EXPORT_FORMATS: dict[str, ExportFormat] = {
    "parquet": ExportFormat(".parquet", _OF_PARQUET, "micros", ParquetWriter),
    "arrow": ExportFormat(".arrow", ("lz4", "zstd", NONE), "micros", _arrow),
    "csv": ExportFormat(".csv", (NONE, "gzip"), "exact", _text(CsvWriter)),
    "jsonl": ExportFormat(".jsonl", ("gzip", NONE), "exact", _text(JsonLinesWriter)),
    "delta": ExportFormat(".parquet", _OF_PARQUET[:2], "micros", DeltaFileWriter, is_delta=True),
}
"""The formats by name."""


def choose_compression(format_name: str, compression: str | None) -> str:
    """Return the compression of a format, by default its first.

    Raises:
        InvalidOption: There is no such format, or it does not have this compression.
    """
    if format_name not in EXPORT_FORMATS:
        raise InvalidOption(f"no format {format_name!r}", advice=f"there are: {', '.join(EXPORT_FORMATS)}")
    choices = EXPORT_FORMATS[format_name].compressions
    if compression is not None and compression not in choices:
        raise InvalidOption(
            f"{format_name} is not written with compression {compression!r}", advice=f"there are: {', '.join(choices)}"
        )
    return compression or choices[0]
