"""Flink CDC: splits and enumerators of the MySQL source, and of the sources by flink-cdc-base.

These are Postgres, MongoDB, Oracle, SQL Server and Db2.

Source: MySqlSplitSerializer and PendingSplitsStateSerializer of flink-connector-mysql-cdc; SourceSplitSerializer and
PendingSplitsStateSerializer of flink-cdc-base, which all others use.

    snapshot split   i32 1, [base v4+: bool catalog before schema], utf table, utf id, utf key type, utf start, utf
                     end, offset, schemas
    stream split     i32 2, utf id, utf "", offset start, offset end, n x finished split, schemas, [v3+] i32 number of
                     all finished splits, [MySQL v4, base v5+] bool suspended, [base v6+] bool snapshot completed
    finished split   utf table, utf id, utf start, utf end, [base: utf offset factory], offset, [base v4+: bool]
    offset           bool, [JSON object of texts, as bytes32]; MySQL v1: bool, [utf file, i64 position]
    schemas          n x ([base: bool,] utf table, bytes32 JSON of Debezium; v1: utf)
    enumerator       i32 split version, i32 1 snapshot | 2 stream | 3 hybrid; 2: bool assigned; 1 and 3: see
                     `_snapshot_state`

Flink CDC 3.1 moved all classes from com.ververica.cdc to org.apache.flink.cdc: it reads no offset factory of before.

Chunk bounds and offset factories are Java object streams in hex digits. An offset has the keys of its connector,
which distinguish the sources of flink-cdc-base.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from stateproc.connectors.cdc_offsets import base_offset, connector_of, described_offset, is_after, mysql_offset
from stateproc.connectors.connector_format import ConnectorFormat, FormatRole, FormatRow, Position
from stateproc.connectors.java_objects import HEADER, HEX_STREAM, class_name, java_texts
from stateproc.connectors.structures import (
    FLAG,
    I32,
    I64,
    TEXT,
    UTF,
    ByVersion,
    Part,
    Structure,
    at_end,
    at_least,
    cases,
    checked,
    column,
    computed,
    constant,
    converted,
    enumeration,
    hidden,
    is_text,
    listed,
    optional,
    record,
    sized,
    versioned,
)
from stateproc.errors import InvalidOption, UnsupportedSnapshot
from stateproc.wire.cursor import Cursor
from stateproc.wire.output import Output

_OFFSET_TYPE = pa.map_(pa.string(), pa.string())
_TEXTS = pa.list_(pa.string())
STATUSES = (
    "INITIAL_ASSIGNING",
    "INITIAL_ASSIGNING_FINISHED",
    "NEWLY_ADDED_ASSIGNING",
    "NEWLY_ADDED_ASSIGNING_SNAPSHOT_FINISHED",
    "NEWLY_ADDED_ASSIGNING_FINISHED",
)
"""AssignerStatus, by status code."""


# Offsets: JSON objects whose values are texts or null, in the order of the connector's map.


def _read_offset(cursor: Cursor) -> list[tuple[str, str | None]]:
    at = cursor.pos
    try:
        pairs = json.loads(TEXT.read(cursor), object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        cursor.corrupt("an offset that is no JSON", at=at)
    if not isinstance(pairs, tuple) or not all(_is_entry(key, value) for key, value in pairs):
        cursor.corrupt("an offset that is no JSON object of texts", at=at)
    return list(pairs)


def _is_entry(key: str, value: Any) -> bool:
    return is_text(key) and (value is None or (isinstance(value, str) and is_text(value)))


def _write_offset(out: Output, pairs: Iterable[tuple[str, str | None]]) -> None:
    TEXT.write(out, json.dumps(dict(pairs), ensure_ascii=False, separators=(",", ":")))


_JSON = Structure(_OFFSET_TYPE, _read_offset, _write_offset, 4)
_MYSQL_KEYS = {"file", "kind"}


def _has_mysql_keys(offset: list[tuple[str, str | None]]) -> bool:
    return not _MYSQL_KEYS.isdisjoint(key for key, _ in offset)


_MYSQL_OFFSET = optional(checked(_JSON, _has_mysql_keys, "an offset of MySQL's binlog"))
_BASE_OFFSET = optional(checked(_JSON, lambda offset: not _has_mysql_keys(offset), "an offset of another database"))
_FILE_OFFSET = optional(
    converted(
        record(column("file", UTF), column("pos", I64)),
        _OFFSET_TYPE,
        lambda row: [("file", row["file"]), ("pos", str(row["pos"]))],
        lambda pairs: {"file": dict(pairs)["file"], "pos": int(dict(pairs)["pos"])},
    )
)
"""MySQL's split version 1."""


# Parts that both families have.


def _bounds(*names: str) -> list[Part]:
    """Describe the bounds of a chunk: a Java stream of Object[] or null; null is unbounded."""
    parts = []
    for name in names:
        stream = f"{name}_stream"
        parts += [hidden(stream, HEX_STREAM), computed(name, _TEXTS, _texts_of(stream))]
    return parts


def _texts_of(stream: str) -> Callable[[FormatRow], Any]:
    return lambda row: java_texts(row[stream])


def _class_of(stream: str) -> Callable[[FormatRow], Any]:
    return lambda row: class_name(row[stream])


def _table_before() -> Part:
    return column("catalog_before_schema", FLAG)


def _tables(name: str) -> list[Part]:
    return [column(name, listed(UTF))]


def _flagged_tables(name: str) -> list[Part]:
    stored = f"{name}_stored"
    tables = listed(record(_table_before(), column("table", UTF)))
    return [hidden(stored, tables), computed(name, _TEXTS, lambda row: [item["table"] for item in row[stored]])]


class _Family:
    """The layouts of one of the two families, by split version."""

    def __init__(self, *, base: bool) -> None:
        self.base = base
        # Splits of flink-cdc-base have offsets that some connector can read since version 2.
        self.splits = ByVersion(range(2, 7) if base else range(1, 5), self._split)

    def offset(self, version: int) -> Structure:
        if self.base:
            return _BASE_OFFSET
        return _FILE_OFFSET if version == 1 else _MYSQL_OFFSET

    def schemas(self, version: int) -> Structure:
        flag = [_table_before()] if self.base else []
        return listed(record(*flag, column("table", UTF), column("schema", UTF if version == 1 else TEXT)))

    def snapshot_parts(self, version: int) -> list[Part]:
        return [
            *([_table_before()] if self.base and version >= 4 else []),
            column("table", UTF),
            column("split_id", UTF),
            column("key_type", checked(UTF, lambda value: value.startswith("ROW<"), "the type of a chunk key")),
            *_bounds("start", "end"),
            column("high_watermark", self.offset(version)),
            column("schemas", self.schemas(version)),
        ]

    def finished_split(self, version: int) -> Structure:
        factory = [
            hidden("factory_stream", HEX_STREAM),
            computed("offset_factory", pa.string(), _class_of("factory_stream")),
        ]
        return record(
            column("table", UTF),
            column("split_id", UTF),
            *_bounds("start", "end"),
            *(factory if self.base else []),
            column("high_watermark", self.offset(version)),
            *([_table_before()] if self.base and version >= 4 else []),
        )

    def _stream_parts(self, version: int) -> list[Part]:
        flags = []
        if self.base:
            flags += [column("suspended", FLAG)] if version >= 5 else []
            flags += [column("snapshot_completed", FLAG)] if version >= 6 else []
        elif version >= 4:
            # Releases up to 2.2.0 do not write it.
            flags += [column("suspended", at_end(FLAG))]
        return [
            column("split_id", UTF),
            constant(UTF, "", "the empty key type of a stream split"),
            column("starting_offset", self.offset(version)),
            column("ending_offset", self.offset(version)),
            column("finished_splits", listed(self.finished_split(version))),
            column("schemas", self.schemas(version)),
            *([column("total_finished_splits", at_least(I32, 0, "a number of splits"))] if version >= 3 else []),
            *flags,
        ]

    def _split(self, version: int) -> Structure:
        stream = "stream" if self.base else "binlog"
        return record(
            cases(
                "kind", I32, {1: ("snapshot", self.snapshot_parts(version)), 2: (stream, self._stream_parts(version))}
            )
        )

    def _snapshot_state(self, version: int, split_version: int) -> list[Part]:
        """Describe SnapshotPendingSplitsState; versions 1 and 2 end after the status."""
        tables = _flagged_tables if self.base and version >= 5 else _tables
        split = sized(self.splits[split_version])
        status = column("assigner_status", enumeration(I32, STATUSES))
        finished = converted(FLAG, pa.string(), STATUSES.__getitem__, lambda value: value != STATUSES[0])
        parts = [
            *tables("already_processed_tables"),
            column("remaining_splits", listed(split)),
            column("assigned_splits", listed(record(column("split_id", UTF), column("split", split)))),
            column(
                "finished_offsets",
                listed(record(column("split_id", UTF), column("offset", self.offset(split_version)))),
            ),
            status if version >= (6 if self.base else 3) else column("assigner_status", finished),
        ]
        if version < 3:
            return parts
        parts += [*tables("remaining_tables"), column("table_id_case_sensitive", FLAG)]
        if version >= 4:
            parts.append(column("schemas", self.schemas(split_version)))
        if self.base and version >= 7:
            ids = record(column("split_id", UTF), column("checkpoint_id", I64))
            parts.append(column("split_finished_checkpoint_ids", listed(ids)))
        if version >= (8 if self.base else 5):
            splitting = record(column("table", UTF), *_bounds("next_chunk_start"), column("next_chunk_id", I32))
            parts.append(column("splitting", optional(splitting)))
        return parts

    def enumerator(self, version: int) -> Structure:
        """Describe PendingSplitsState of a version: its first number is the version of the splits in it."""
        assigned = column("stream_split_assigned" if self.base else "binlog_split_assigned", FLAG)

        def layout(split_version: int) -> Structure:
            state = self._snapshot_state(version, split_version)
            return record(cases("kind", I32, {1: ("snapshot", state), 3: ("hybrid", [*state, assigned])}))

        return _by_split_version(ByVersion(self.splits, layout))


def _by_split_version(layouts: Mapping[int, Structure]) -> Structure:
    # The newest splits have all columns.
    columns = pa.struct([("split_version", pa.int32()), *layouts[max(layouts)].arrow_type])
    return versioned(layouts, "splits", columns, name="split_version")


def _named(row: FormatRow) -> str | None:
    """Return the connector that wrote a split or an enumerator, by the first offset in it."""
    offsets = [row.get("starting_offset"), row.get("high_watermark")]
    offsets += [item["offset"] for item in row.get("finished_offsets", ())[:1]]
    return next((name for offset in offsets if (name := connector_of(offset)) is not None), None)


def _moved_split(row: FormatRow, text: str, *, base: bool) -> FormatRow:
    """Return a split that continues at a position. Raises InvalidOption."""
    name = row["split_id"]
    if row["kind"] == "snapshot":
        raise InvalidOption(
            f"{name} is a chunk of the snapshot, which is read from its beginning",
            advice="set the position of the split that streams, when the snapshot has been read",
        )
    known, total = len(row["finished_splits"]), row.get("total_finished_splits", len(row["finished_splits"]))
    if row.get("suspended") or known < total or row["starting_offset"] is None:
        raise InvalidOption(
            f"{name} does not stream yet: the source is still taking over the snapshot of its tables",
            advice="take a savepoint when stateproc offsets says 'streaming' alone, and change that",
        )
    before, end = dict(row["starting_offset"]), dict(row["ending_offset"] or ())
    offset = base_offset(text, before) if base else mysql_offset(text, before)
    if end and is_after(offset, end):
        raise InvalidOption(
            f"{text} is after {described_offset(end.items())[1]}, where {name} ends",
            advice="give an earlier position",
        )
    return {**row, "starting_offset": list(offset.items())}


def _cautions(row: FormatRow) -> Iterator[str]:
    kind, _ = described_offset(row["starting_offset"])
    offset = dict(row["starting_offset"])
    if offset.get("kind") == "TIMESTAMP":
        yield (
            "reads the binlog file of that time from its beginning (older connectors all files): earlier changes are "
            "left out only if the job's startup option is that time as well"
        )
    if row["kind"] == "binlog" and row["schemas"] and offset.get("kind") != "LATEST":
        yield "reads the binlog with the columns of the savepoint: give no position before a table's columns changed"
    if kind == "LSN":
        yield "Postgres sends nothing before the confirmed_flush_lsn of the replication slot"
    if row["finished_splits"]:
        yield "changes of a chunk up to where the snapshot has read it are left out, as before"


# Classes that a split names, which Flink CDC 3.1 moved to another package.

OLD_PACKAGE, NEW_PACKAGE = "com.ververica.cdc.connectors.", "org.apache.flink.cdc.connectors."
_FACTORIES = {
    "postgres.source.offset.PostgresOffsetFactory": -9086775444826524796,
    "mongodb.source.offset.ChangeStreamOffsetFactory": 2949956876554555590,
    "oracle.source.meta.offset.RedoLogOffsetFactory": 1,
    "sqlserver.source.offset.LsnFactory": -3810590011169245572,
}
"""Class → its serialVersionUID in 3.1 to 3.5, where not declared what Java computes of its members."""
_FACTORY = ("base.source.meta.offset.OffsetFactory", 1)
"""Their superclass."""


def names_old_classes(splits: Iterable[bytes | None]) -> bool:
    """Return whether splits name classes of the old package: in Java streams, in hex digits."""
    wanted = OLD_PACKAGE.encode().hex().encode()
    return any(wanted in data for data in splits if data is not None)


def _factory_stream(name: str) -> bytes:
    """Return the Java object stream of an offset factory of the new package; factories have no fields."""
    classes = [(name, _FACTORIES[name]), _FACTORY]
    out = Output()
    out.raw(HEADER + b"s")  # an object
    for at, (own, version) in enumerate(classes):
        out.raw(b"r")  # a class
        out.utf(NEW_PACKAGE + own)
        out.i64(version)
        out.raw(b"\x02\x00\x00x")  # serializable, no fields, no annotations
        if at == len(classes) - 1:
            out.raw(b"p")  # no superclass that is serializable
    return bytes(out)


def _renamed_split(row: FormatRow) -> FormatRow:
    """Return a split whose offset factories are of the new package. Raises UnsupportedSnapshot."""
    known = row.get("finished_splits")
    return {**row, "finished_splits": [_renamed(item) for item in known]} if known else row


def _renamed(item: FormatRow) -> FormatRow:
    known = item["offset_factory"] or ""
    if not known.startswith(OLD_PACKAGE):
        return item
    name = known.removeprefix(OLD_PACKAGE)
    if name not in _FACTORIES:
        raise UnsupportedSnapshot(
            f"the class {known}, which Flink CDC 3.1 has under another name, is not known",
            advice="start the source anew: leave out its operator",
        )
    return {**item, "factory_stream": _factory_stream(name), "offset_factory": NEW_PACKAGE + name}


def _split_positions(row: FormatRow) -> Iterator[Position]:
    if row["kind"] == "snapshot":
        yield _chunk(row, done=row["high_watermark"] is not None)
        return
    kind, at = described_offset(row["starting_offset"])
    total = row.get("total_finished_splits", len(row["finished_splits"]))
    phase = "streaming"
    if row.get("suspended"):
        phase = "streaming, suspended for tables that were added"
    if total:
        phase += f", {len(row['finished_splits'])} of {total} finished chunks known"
    yield Position(row["split_id"], kind, at, phase, described_offset(row["ending_offset"])[1])


def _chunk(row: FormatRow, *, done: bool, assigned: bool = True) -> Position:
    bounds = [None if value is None else ", ".join(str(item) for item in value) for value in (row["start"], row["end"])]
    start = "the beginning" if bounds[0] is None else bounds[0]
    phase = "snapshot, chunk done" if done else "snapshot, chunk not done"
    return Position(row["split_id"], "chunk", start, phase, bounds[1], assigned)


def _enumerator_positions(row: FormatRow) -> Iterator[Position]:
    chunks = len(row["assigned_splits"]) + len(row["remaining_splits"])
    done = len(row["finished_offsets"])
    streaming = next((row[name] for name in ("stream_split_assigned", "binlog_split_assigned") if name in row), False)
    tables = len(row.get("remaining_tables") or ())
    phase = f"{'streaming' if streaming else 'snapshot'}, {done} of {chunks} chunks done"
    if tables:
        phase += f", {tables} tables not split yet"
    yield Position("all tables", "chunks", f"{done} of {chunks}", phase, assigned=False)
    for split in row["remaining_splits"]:
        yield _chunk(split, done=False, assigned=False)


_MYSQL, _BASE = _Family(base=False), _Family(base=True)
MYSQL_SPLIT = ConnectorFormat(
    "mysql-cdc",
    FormatRole.SPLIT,
    _MYSQL.splits,
    positions=_split_positions,
    moved=lambda row, wanted: _moved_split(row, wanted[row["split_id"]], base=False),
    cautions=_cautions,
)
BASE_SPLIT = ConnectorFormat(
    "flink-cdc",
    FormatRole.SPLIT,
    _BASE.splits,
    positions=_split_positions,
    moved=lambda row, wanted: _moved_split(row, wanted[row["split_id"]], base=True),
    cautions=_cautions,
    renamed=_renamed_split,
    names=_named,
)


def _says_more(row: FormatRow) -> bool:
    return bool(row["assigned_splits"] or row["remaining_splits"] or row["already_processed_tables"])


MYSQL_ENUMERATOR = ConnectorFormat(
    "mysql-cdc",
    FormatRole.ENUMERATOR,
    ByVersion(range(1, 6), _MYSQL.enumerator),
    positions=_enumerator_positions,
    identifies=_says_more,
)
BASE_ENUMERATOR = ConnectorFormat(
    "flink-cdc",
    FormatRole.ENUMERATOR,
    ByVersion(range(2, 9), _BASE.enumerator),
    positions=_enumerator_positions,
    identifies=_says_more,
    names=_named,
)


def _stream_only() -> Structure:
    return record(
        column("split_version", checked(I32, lambda value: 1 <= value <= max(_BASE.splits), "a version of splits")),
        constant(I32, 2, "the enumerator of a source without a snapshot"),
        column("stream_split_assigned", FLAG),
    )


STREAM_ENUMERATOR = ConnectorFormat(
    "cdc stream", FormatRole.ENUMERATOR, {version: _stream_only() for version in range(1, 9)}, positions=lambda row: ()
)
"""Nine bytes, the same for every CDC source that reads no snapshot: it is identified by the readers' splits."""
