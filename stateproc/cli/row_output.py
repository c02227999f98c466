"""Open what a command writes its rows to, and the writer of their format."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO

import pyarrow as pa

from stateproc.errors import InvalidOption
from stateproc.row_formats.row_writers import WRITERS, RowWriter

BINARY_FORMATS = frozenset({"parquet", "arrow"})
"""Formats that a terminal cannot show."""


def row_writer(format_name: str, stream: BinaryIO, schema: pa.Schema) -> RowWriter:
    """Return the writer of a format of :mod:`stateproc.cli.output_format`."""
    if format_name == "table":
        # Lazy: start-up. Only tables need rich.
        from stateproc.cli.render.table_writer import TableWriter

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
