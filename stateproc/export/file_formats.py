"""The formats of exported files: their suffix, their columns, their compression and their writer."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.export.manifest import ExportedFile, ExportSettings
from stateproc.model.schema_merging import aligned
from stateproc.readers.splits import Split
from stateproc.row_formats.column_types import delta_type, parquet_batch, parquet_schema
from stateproc.row_formats.row_writers import ArrowWriter, CsvWriter, JsonLinesWriter, ParquetWriter, RowWriter
from stateproc.storage.store import StorePath
from stateproc.storage.writing import OutputFile, make_directory, rename, renames

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


# Write the rows of some splits into one file, which gets its name once it is complete.

PARTIAL_PREFIX = ".part-"
"""Names of files that are being written begin so; readers of directories ignore names that begin with a dot."""


@dataclass(frozen=True)
class FileTask:
    """A file to write.

    Attributes:
        folder: Relative to the directory of the export.
        schema: The columns.
        splits: The splits whose rows it contains.
        key_groups: The first and the last key group; None where rows belong to none.
    """

    folder: str
    name: str
    schema: pa.Schema
    splits: tuple[Split, ...]
    key_groups: tuple[int, int] | None = None

    @property
    def path(self) -> str:
        """The path relative to the directory of the export."""
        return f"{self.folder}/{self.name}"

    @property
    def bytes(self) -> int:
        """The stored bytes that are read."""
        return sum(split.bytes for split in self.splits)


class _Sink(io.RawIOBase):
    """An output file as the binary stream that writers of rows need."""

    def __init__(self, file: OutputFile) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._file.write(view)
        return len(view)


def write_file(
    task: FileTask,
    directory: StorePath,
    settings: ExportSettings,
    advance: Callable[[int], None],
) -> Iterator[ExportedFile | None]:
    """Write a file.

    Args:
        task: What to write.
        directory: The directory of the export.
        settings: How.
        advance: Called with the stored bytes of each split that is read.

    Yields:
        None after each batch, where the caller may stop; at last the complete file.

    Raises:
        WriteFailed: The file cannot be written.
        SnapshotError: The rows cannot be read.
    """
    folder = directory / task.folder
    make_directory(folder)
    target = folder / task.name
    is_renamed = renames(target)
    file = OutputFile(folder / (PARTIAL_PREFIX + task.name) if is_renamed else target)
    rows = 0
    try:
        form = EXPORT_FORMATS[settings.format]
        with form.make(_Sink(file), task.schema, settings.compression) as writer:  # type: ignore[arg-type]
            for split in task.splits:
                for batch in split.read():
                    writer.write(aligned(batch, task.schema))
                    rows += len(batch)
                    yield None
                advance(split.bytes)
        # A copy of what the snapshot has need not survive a power failure: fsync takes a tenth of the time.
        file.close(durable=False)
    except pa.ArrowException as error:
        file.discard()
        raise UnsupportedSnapshot(
            f"values cannot be written as {settings.format}: {error}", advice="export the state in another format"
        ) from error
    except BaseException:
        file.discard()
        raise
    if is_renamed:
        rename(file.path, target, durable=False)
    yield ExportedFile(task.path, rows, file.size, task.key_groups)
