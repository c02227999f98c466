"""Open what a command writes its rows to, and the writer of their format."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO

import pyarrow as pa

from stateproc.cli.arguments import choose_format
from stateproc.cli.progress import Advance, progress
from stateproc.errors import InvalidOption
from stateproc.model.state import FilteredScan
from stateproc.row_formats.row_writers import WRITERS, RowWriter

BINARY_FORMATS = frozenset({"parquet", "arrow"})
"""Formats that a terminal cannot show."""


def row_writer(format_name: str, stream: BinaryIO, schema: pa.Schema) -> RowWriter:
    """Return the writer of a format of :mod:`stateproc.cli.arguments`."""
    if format_name == "table":
        # Lazy: start-up. Only tables need rich.
        from stateproc.cli.rows_table import TableWriter

        return TableWriter(stream, schema)
    return WRITERS[format_name](stream, schema)


@contextmanager
def output_stream(path: str | None) -> Iterator[BinaryIO]:
    """Open stdout or a file. A file gets its name only once it is complete."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.flush()  # of the text above the buffer too: tables are printed as text
        return
    partial = path + ".part"
    try:
        with open(partial, "wb") as stream:
            yield stream
        os.replace(partial, path)
    except OSError as error:
        raise InvalidOption(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def write_rows(found: Generator[pa.RecordBatch, None, None], writer: RowWriter, limit: int | None) -> tuple[int, bool]:
    """Write at most ``limit`` rows; return how many, and whether there are more."""
    written = 0
    with closing(found) as batches:
        for batch in batches:
            remaining = len(batch) if limit is None else limit - written
            if len(rows := batch.slice(0, remaining)):
                writer.write(rows)
                written += len(rows)
            if remaining < len(batch):
                return written, True
    return written, False


# Print or write the rows of a scan.

TABLE_ROWS = 20
"""Rows of a table without ``--limit``."""


def chosen_format(arguments: Namespace) -> str:
    """Return the format of the rows. Raises InvalidOption if it cannot be shown."""
    format_name = choose_format(arguments.format, arguments.output, terminal=sys.stdout.isatty())
    if format_name in BINARY_FORMATS and arguments.output is None and sys.stdout.isatty():
        raise InvalidOption(f"{format_name} cannot be shown on a terminal", advice="give --output FILE, or use a pipe")
    return format_name


def temporal_of(arguments: Namespace, format_name: str) -> str:
    """Return how rows show dates and times: as Arrow's types in binary formats, unless something else is asked for."""
    return arguments.temporal or ("micros" if format_name in BINARY_FORMATS else "exact")


def write_scan(scan: FilteredScan, format_name: str, arguments: Namespace) -> None:
    """Write the rows of a scan to stdout or a file, and say on stderr how many a file has.

    Raises:
        SnapshotError: The rows cannot be read, or the file cannot be written.
    """
    limit = TABLE_ROWS if arguments.limit is None and format_name == "table" else arguments.limit
    started = time.monotonic()
    with (
        output_stream(arguments.output) as stream,
        _scan_progress(arguments.output, scan) as advance,
        row_writer(format_name, stream, scan.schema) as writer,
    ):
        written, is_cut = _write_rows(scan, writer, advance, limit)
    _report(arguments.output, format_name, written, is_cut, time.monotonic() - started)


def _write_rows(scan: FilteredScan, writer: RowWriter, advance: Advance, limit: int | None) -> tuple[int, bool]:
    """Write at most ``limit`` rows; return how many, and whether there are more."""
    written = 0
    with closing(scan.batches(advance, at_once=limit is None)) as batches:
        for batch in batches:
            remaining = len(batch) if limit is None else limit - written
            is_cut = remaining < len(batch)
            rows = batch.slice(0, remaining) if is_cut else batch
            if len(rows):
                writer.write(rows)
                written += len(rows)
            if is_cut:
                return written, True
    return written, False


@contextmanager
def _scan_progress(output: str | None, scan: FilteredScan) -> Iterator[Advance]:
    """Show progress if the rows go to a file; otherwise it would be printed between rows."""
    if output is None:
        yield lambda _: None
        return
    with progress(f"writing {output}", sum(split.bytes for split in scan.splits)) as advance:
        yield advance


def _report(output: str | None, format_name: str, written: int, is_cut: bool, seconds: float) -> None:
    """Print on stderr how many rows a file has, or that a table does not show all."""
    if output is not None:
        rate = written / seconds if seconds > 0 else 0
        print(f"{written:,} rows to {output} ({rate:,.0f} rows/s)", file=sys.stderr)
    elif format_name == "table" and is_cut:
        print(f"the first {written:,} rows; --limit N for more, --format jsonl for all", file=sys.stderr)
