"""Print or write the rows of a scan."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager

from stateproc.cli.output_format import choose_format
from stateproc.cli.progress import Advance, progress
from stateproc.cli.row_output import BINARY_FORMATS, output_stream, row_writer
from stateproc.errors import InvalidOption
from stateproc.model.filtered_scan import FilteredScan
from stateproc.row_formats.row_writers import RowWriter

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

    Args:
        scan: The rows.
        format_name: The format.
        arguments: ``output``, the file or None, and ``limit``.

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
