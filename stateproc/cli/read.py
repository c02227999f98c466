"""``stateproc read``: the rows of one state, streamed to the terminal, a pipe or a file."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import pyarrow as pa

from stateproc.cli.filtering import RowFilter
from stateproc.cli.formats import chosen_format
from stateproc.cli.opening import open_snapshot
from stateproc.cli.output import WRITERS
from stateproc.cli.progress import Advance, progress
from stateproc.cli.pruning import wanted_key_groups, wanted_keys
from stateproc.cli.target import chosen_operator, chosen_state
from stateproc.cli.where import Condition, parse
from stateproc.errors import InvalidOption
from stateproc.snapshot.connector_state import opened_state
from stateproc.snapshot.schema_merging import aligned
from stateproc.snapshot.state import State, narrowed

TABLE_ROWS = 20
_SPLIT_BYTES = 8 << 20
_TYPED = frozenset({"parquet", "arrow"})


def read_command(arguments: Namespace) -> int:
    """Print or write the rows that the arguments ask for."""
    condition = None if arguments.where is None else parse(arguments.where)
    form = chosen_format(arguments.format, arguments.output, terminal=sys.stdout.isatty())
    if form in _TYPED and arguments.output is None and sys.stdout.isatty():
        raise InvalidOption(f"{form} is not for terminals", advice="--output FILE, or a pipe")
    temporal = arguments.temporal or ("micros" if form in _TYPED else "exact")
    snapshot = open_snapshot(arguments, temporal)
    state = chosen_state(chosen_operator(snapshot, arguments), arguments)
    columns = None if arguments.columns is None else [name.strip() for name in arguments.columns.split(",")]
    rows = Rows(state, condition, columns, arguments.flatten, arguments.raw)
    limit = arguments.limit
    if limit is None and form == "table":
        limit = TABLE_ROWS
    began, written = time.monotonic(), 0
    more = False
    with (
        _stream(arguments.output) as stream,
        _advance(arguments, rows) as advance,
        WRITERS[form](stream, rows.schema) as writer,
    ):
        for batch in rows.batches(advance):
            room = len(batch) if limit is None else limit - written
            if room < len(batch):
                batch, more = batch.slice(0, room), True
            if len(batch):
                writer.write(batch)
                written += len(batch)
            if more:
                break
    _tell(arguments, form, written, more, time.monotonic() - began)
    return 0


class Rows:
    """The rows of a state that are wanted: filtered, with the columns asked for.

    ``raw``: source and sink states as their bytes. Raises InvalidOption, SnapshotError.
    """

    def __init__(
        self,
        state: State,
        condition: Condition | None = None,
        columns: Sequence[str] | None = None,
        flatten: bool = False,
        raw: bool = False,
    ) -> None:
        self._state = state if raw else opened_state(state)
        self._condition, self._flatten, self._raw = condition, flatten, raw
        self._whole = self._state.schema(flatten=flatten)
        self.schema = narrowed(self._whole, columns)
        self._filter = None if condition is None else RowFilter(condition, self._whole, self._typed_schema())
        self.splits = self._state.splits(
            flatten=flatten, key_groups=self._key_groups(), split_bytes=_SPLIT_BYTES, keys=self._keys()
        )

    def batches(self, advance: Advance) -> Iterator[pa.RecordBatch]:
        """The rows, split by split; ``advance`` is told the bytes done."""
        for split in self.splits:
            for batch in split.read():
                whole = aligned(batch, self._whole)
                kept = whole if self._filter is None else self._filter.apply(whole)
                yield kept.select(self.schema.names)
            advance(split.bytes)

    def _key_groups(self) -> set[int] | None:
        """The key groups in which rows can be, as far as the condition tells."""
        if self._condition is None:
            return None
        groups = wanted_key_groups(self._condition)
        keys = self._keys()
        of_keys = None if keys is None else self._state.key_groups_of(keys)
        if of_keys is not None:
            groups = of_keys if groups is None else groups & of_keys
        return groups

    def _keys(self) -> list[Any] | None:
        """The keys that rows can have, as far as the condition tells."""
        if self._condition is None or "key" not in self._whole.names:
            return None
        return wanted_keys(self._condition, self._typed_schema().field("key").type)

    def _typed_schema(self) -> pa.Schema:
        """The schema in which dates and times are told from other text."""
        return self._state.with_temporal("micros").schema(flatten=self._flatten)


@contextmanager
def _stream(path: str | None) -> Iterator[BinaryIO]:
    """Where rows go: stdout, or a file, which stands under its name only when it is whole."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = path + ".part"
    try:
        with open(part, "wb") as stream:
            yield stream
        os.replace(part, path)
    except OSError as error:
        raise InvalidOption(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


@contextmanager
def _advance(arguments: Namespace, rows: Rows) -> Iterator[Advance]:
    """Progress where rows go to a file; the terminal belongs to the rows otherwise."""
    if arguments.output is None:
        yield lambda _: None
        return
    with progress(f"writing {arguments.output}", sum(split.bytes for split in rows.splits)) as advance:
        yield advance


def _tell(arguments: Namespace, form: str, written: int, more: bool, seconds: float) -> None:
    """What was written, on stderr: to whoever writes a file or looks at a table."""
    if arguments.output is not None:
        rate = written / seconds if seconds > 0 else 0
        print(f"{written:,} rows to {arguments.output} ({rate:,.0f} rows/s)", file=sys.stderr)
    elif form == "table" and more:
        print(f"the first {written:,} rows; --limit N for more, --format jsonl for all", file=sys.stderr)
