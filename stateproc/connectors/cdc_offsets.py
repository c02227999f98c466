"""Offsets of Flink CDC: which connector wrote one, how its position is said, and the offset of a given position.

An offset is an object of texts with the keys of its connector, which its own class reads (BinlogOffset, PostgresOffset,
ChangeStreamOffset, RedoLogOffset):

    MySQL       kind SPECIFIC | EARLIEST | LATEST | TIMESTAMP | NON_STOPPING, file, pos, gtids, ts_sec, event and row
                (to skip after the position), server_id; no kind in old states; in splits of version 1 file and pos only
    Postgres    lsn, ts_usec; of a transaction that was read lsn_proc, lsn_commit, txId as well
    MongoDB     timestamp (seconds << 32 | ordinal), resumeToken (JSON) or null
    Oracle      scn, commit_scn, lcr_position
    SQL Server, Db2  change_lsn, commit_lsn
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from stateproc.connectors.given_positions import moment, position_error

Offset = dict[str, "str | None"]

_MIN_LONG = str(-(1 << 63))
_KEYS = {
    "mysql-cdc": ("file", "gtids", "pos"),
    "postgres-cdc": ("lsn",),
    "mongodb-cdc": ("resumeToken", "timestamp"),
    "oracle-cdc": ("scn",),
    "sqlserver-cdc or db2-cdc": ("change_lsn", "commit_lsn"),
}


def connector_of(offset: Iterable[tuple[str, str | None]] | None) -> str | None:
    """Return the connector whose keys an offset has, None if none has."""
    keys = {key for key, _ in offset or ()}
    for connector, own in _KEYS.items():
        if keys.intersection(own):
            return connector
    return None


def described_offset(offset: Iterable[tuple[str, str | None]] | None) -> tuple[str, str | None]:
    """Return what kind of position an offset is, and the position in the connector's words; None without an end."""
    found = dict(offset or ())
    if "change_lsn" in found or "commit_lsn" in found:
        return "LSN", ", ".join(f"{key} {found[key]}" for key in ("commit_lsn", "change_lsn") if found.get(key))
    if "lsn" in found:
        return "LSN", _lsn(found["lsn"])
    if "scn" in found:
        return "SCN", None if found["scn"] == _MIN_LONG else found["scn"]
    if "resumeToken" in found or "timestamp" in found:
        return _mongodb(found)
    return _mysql(found)


def _lsn(value: str | None) -> str | None:
    """Return a Postgres LSN as Postgres writes it (two hexadecimal numbers); a negative one is a marker without end."""
    if value is None or not value.lstrip("-").isdecimal():
        return value
    number = int(value)
    return None if not 0 <= number < (1 << 63) - 1 else f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def _mongodb(found: dict[str, str | None]) -> tuple[str, str | None]:
    token, timestamp = found.get("resumeToken"), found.get("timestamp")
    if token is not None:
        return "resume token", token
    if timestamp is None or not timestamp.isdecimal():
        return "timestamp", timestamp
    seconds, ordinal = int(timestamp) >> 32, int(timestamp) & 0xFFFFFFFF
    # Its largest BSON timestamp: never reached.
    return "timestamp", None if seconds == (1 << 31) - 1 else f"{seconds}.{ordinal}"


def _mysql(found: dict[str, str | None]) -> tuple[str, str | None]:
    kind, file, pos, gtids = (found.get(key) for key in ("kind", "file", "pos", "gtids"))
    if kind is None and file == "":
        kind = {_MIN_LONG: "NON_STOPPING", "0": "EARLIEST"}.get(pos or "")
    if kind == "NON_STOPPING":
        return "file:pos", None
    if kind == "TIMESTAMP":
        return "timestamp", found.get("ts_sec")
    if kind in ("EARLIEST", "LATEST"):
        return "file:pos", kind.lower()
    skipped = [f"{found[key]} {key}s" for key in ("event", "row") if found.get(key) not in (None, "0")]
    after = f" + {' and '.join(skipped)}" if skipped else ""
    at = None if not file else f"{file}:{pos}"
    if gtids:
        return "GTID", gtids if at is None else f"{gtids} ({at}{after})"
    return "file:pos", None if at is None else at + after


# Offsets for positions that are given.

_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_GTIDS = re.compile(
    rf"{_UUID}(?::[a-z_]\w*)?(?::\d+(?:-\d+)?)+(?:,{_UUID}(?::[a-z_]\w*)?(?::\d+(?:-\d+)?)+)*", re.ASCII
)
_FILE_POS = re.compile(r"([^:\s\ud800-\udfff]+):(\d{1,19})", re.ASCII)
_LSN = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})")
_BSON_TIMESTAMP = re.compile(r"(\d{1,10})\.(\d{1,10})", re.ASCII)
_TOKEN = re.compile(r"82([0-9A-Fa-f]{8})([0-9A-Fa-f]{8})(?:[0-9A-Fa-f]{2})*")
_FILE_AND_POS = {"file", "pos"}
_LONGS, _INTS = 1 << 63, 1 << 31


def mysql_offset(text: str, before: Mapping[str, str | None]) -> Offset:
    """Return the offset of a position of MySQL's binlog, as the connector that wrote ``before`` has it.

    Raises InvalidOption: ``text`` is no such position, or that release of the connector has no offsets for it.
    """
    only_file = set(before) == _FILE_AND_POS
    found: Offset = {} if only_file else {"ts_sec": "0", "row": "0", "event": "0"}
    if "kind" in before:
        found["kind"] = "SPECIFIC"
    said = re.sub(r"\s", "", text)
    if _GTIDS.fullmatch(said) and not only_file:
        return {**found, "file": "", "pos": "0", "gtids": said}
    if text == "earliest":
        return {**found, "file": "", "pos": "0", **({"kind": "EARLIEST"} if "kind" in before else {})}
    if "kind" in before and text == "latest":
        return {**found, "kind": "LATEST"}
    at = moment(text)
    if "kind" in before and at is not None and at >= 0:
        return {**found, "kind": "TIMESTAMP", "ts_sec": str(at // 1000)}
    named = _FILE_POS.fullmatch(text)
    if named is not None and int(named[2]) < _LONGS and not _GTIDS.fullmatch(said):
        return {**found, "file": named[1], "pos": named[2]}
    forms = ["FILE:POSITION such as mysql-bin.000003:4711", "earliest"]
    if not only_file:
        forms.insert(1, "a set of GTIDs such as 24bc7850-2c16-11e6-a073-0242ac110002:1-191")
    if "kind" in before:
        forms += ["latest", "a time such as 2026-01-31T12:00:00Z"]
    raise position_error(text, "MySQL's binlog", forms)


def _postgres_offset(text: str) -> Offset:
    found = _LSN.fullmatch(text)
    number = 0 if found is None else int(found[1], 16) << 32 | int(found[2], 16)
    # The highest are markers.
    if not 0 < number < _LONGS - 1:
        raise position_error(text, "Postgres", ["an LSN such as 16/B374D848"])
    return {"lsn": str(number), "ts_usec": "0"}


def _oracle_offset(text: str) -> Offset:
    if not re.fullmatch(r"[0-9]{1,19}", text) or not 0 < int(text) < _LONGS:
        raise position_error(text, "Oracle", ["an SCN, a whole number such as 2868546"])
    return {"scn": str(int(text)), "commit_scn": "0", "lcr_position": None}


def _mongodb_offset(text: str) -> Offset:
    token = _resume_token(text)
    if token is not None:
        return token
    named, at = _BSON_TIMESTAMP.fullmatch(text), moment(text)
    # The ordinal of the first operation in a second is 1.
    seconds, ordinal = (int(named[1]), int(named[2])) if named is not None else (-1 if at is None else at // 1000, 1)
    if not (0 < seconds < _INTS - 1 and ordinal < _INTS):
        forms = ['a resume token such as {"_data": "8264F1C0FF00…"}', "a timestamp, SECONDS.ORDINAL"]
        raise position_error(text, "MongoDB's change stream", [*forms, "a time such as 2026-01-31T12:00:00Z"])
    return {"timestamp": str(seconds << 32 | ordinal), "resumeToken": None}


def _resume_token(text: str) -> Offset | None:
    """Return the offset of a resume token, a key string that begins with the timestamp; None if it is none."""
    try:
        token = json.loads(text)
    except (ValueError, RecursionError):
        return None
    data = token.get("_data") if isinstance(token, dict) and len(token) == 1 else None
    found = _TOKEN.fullmatch(data) if isinstance(data, str) else None
    if found is None:
        return None
    return {"timestamp": str(int(found[1], 16) << 32 | int(found[2], 16)), "resumeToken": json.dumps(token)}


_GIVEN: dict[str, Callable[[str], Offset]] = {
    "postgres-cdc": _postgres_offset,
    "oracle-cdc": _oracle_offset,
    "mongodb-cdc": _mongodb_offset,
}


def base_offset(text: str, before: Mapping[str, str | None]) -> Offset:
    """Return the offset of a position of the database that ``before`` is of.

    Raises InvalidOption: ``text`` is no such position, or positions of this database cannot be set.
    """
    connector = connector_of(before.items())
    given = _GIVEN.get(connector or "")
    if given is None:
        raise position_error(text, connector or "this source", [])
    return given(text)


def is_after(offset: Mapping[str, str | None], end: Mapping[str, str | None]) -> bool:
    """Return whether an offset is known to be after the one where its split ends."""
    if described_offset(end.items())[1] is None:
        return False
    for key in ("lsn", "scn", "timestamp"):
        if key in offset and key in end:
            return int(offset[key] or 0) > int(end[key] or 0)
    files = offset.get("file"), end.get("file")
    # The connector compares GTIDs first, which have no order where neither set has the other.
    if not all(files) or offset.get("gtids") or end.get("gtids"):
        return False
    return (files[0] or "", int(offset.get("pos") or 0)) > (files[1] or "", int(end.get("pos") or 0))
