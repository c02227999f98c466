"""The options of ``format("savepoint")``: one table of names, and what their text means."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.options import SPLIT_BYTES
from stateproc.storage.settings import STORAGE_PREFIX, storage_value

_SQL = "CREATE TEMPORARY VIEW v USING savepoint OPTIONS (path '…', uid '…', state '…')"
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MAX_KEY_GROUP = (1 << 15) - 1


@dataclass(frozen=True)
class SourceOptions:
    """What to open, what to select in it, and how to read it; see docs/options.md."""

    path: str
    uid: str | None = None
    uid_hash: str | None = None
    state: str | None = None
    operator_state: str | None = None
    timers: str | None = None
    table: str | None = None
    namespace: str | None = None
    flatten: bool = False
    raw: bool = False
    columns: tuple[str, ...] | None = None
    key_groups: frozenset[int] | None = None
    keys: tuple[Any, ...] | None = None
    split_bytes: int = SPLIT_BYTES
    uids: tuple[str, ...] = ()
    classes: str | None = None
    plugins: tuple[str, ...] = ()
    temporal: str = "micros"
    row_kind: bool = False
    kryo: int | None = None
    verify: bool = True
    key_type: str | None = None
    path_mapping: Mapping[str, str] = field(default_factory=dict, hash=False)
    storage_options: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Option:
    """An option: its name as users write it, the field it sets, how its text is read, what it means."""

    name: str
    field: str
    read: Callable[[str], Any]
    meaning: str


def _text(text: str) -> str:
    return text


def _boolean(text: str) -> bool:
    values = {"true": True, "false": False}
    if text.lower() not in values:
        raise ValueError("true or false")
    return values[text.lower()]


def _one_of(*names: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in names:
            near = difflib.get_close_matches(text.lower(), names, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError("one of " + ", ".join(names) + hint)
        return text.lower()

    return read


def _hash(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
        raise ValueError("32 hex digits; a uid goes into the option 'uid'")
    return text.lower()


def _list(text: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        return tuple(str(item) for item in _json(list, "a JSON list")(text))
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _json(kind: type, what: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{what} ({error})") from error
        if not isinstance(found, kind):
            raise ValueError(what)
        return found

    return read


def _keys(text: str) -> tuple[Any, ...]:
    return tuple(_json(list, 'a JSON list of keys, such as [42] or ["a", "b"]')(text))


def _mapping(text: str) -> dict[str, str]:
    what = 'a JSON object of prefixes, such as {"hdfs://old/": "s3://new/"}'
    found = _json(dict, what)(text)
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError(what)
    return dict(found)


def _key_groups(text: str) -> frozenset[int]:
    groups: set[int] = set()
    for part in _list(text):
        match = re.fullmatch(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last > _MAX_KEY_GROUP:
            raise ValueError("key groups and ranges of them, such as 0-15,42")
        groups.update(range(first, last + 1))
    return frozenset(groups)


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d{1,15})\s*([bkmg]?)(?:i?b)?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("a positive number of bytes, such as 67108864 or 64m")
    return int(match[1]) * _UNITS[match[2]]


def _kryo(text: str) -> int:
    if text not in ("2", "5"):
        raise ValueError("2 (Flink 1.x) or 5 (Flink 2.x)")
    return int(text)


OPTIONS: tuple[Option, ...] = (
    Option("path", "path", _text, "the snapshot: its directory, its _metadata, or a checkpoint root"),
    Option("uid", "uid", _text, "the operator, by uid (its name does, if only one has it)"),
    Option("uidHash", "uid_hash", _hash, "the operator, by uid hash (operator id), 32 hex digits"),
    Option("state", "state", _text, "a state by name; without it one row per key, a column per state"),
    Option("operatorState", "operator_state", _text, "a list, union or broadcast state, by name"),
    Option("timers", "timers", _one_of("event", "processing"), "the operator's timers: event or processing"),
    Option(
        "table", "table", _one_of("states", "operators", "files", "coordinators", "rocksdb"),
        "a metadata table: states (what is read without uid), operators, files, coordinators, rocksdb",
    ),
    Option("namespace", "namespace", _text, "of the wide table: the namespace type whose states are joined"),
    Option("flattenCollectionTypes", "flatten", _boolean, "one row per list element or map entry"),
    Option("raw", "raw", _boolean, "source and sink states as their bytes, not opened as columns"),
    Option("columns", "columns", _list, "only these columns, comma separated or a JSON list"),
    Option("keyGroups", "key_groups", _key_groups, "only these key groups, such as 0-15,42"),
    Option("keyGroup", "key_groups", _key_groups, "the same"),
    Option("keys", "keys", _keys, "only the key groups of these keys, a JSON list; filter on key as well"),
    Option("splitBytes", "split_bytes", _size, "bytes per Spark partition, such as 64m; default 256m"),
    Option("uids", "uids", _list, "uids of the job, to name operators of Flink 1.x snapshots"),
    Option("classes", "classes", _text, "descriptions of user classes: JSON text or the path of a JSON file"),
    Option("plugins", "plugins", _list, "modules that register parsers, comma separated"),
    Option("temporal", "temporal", _one_of("micros", "exact"), "micros, or exact: nanoseconds kept"),
    Option("rowKind", "row_kind", _boolean, "a column with the RowKind of Rows"),
    Option("kryo", "kryo", _kryo, "2 or 5, default by the release that wrote the snapshot"),
    Option("verify", "verify", _boolean, "false: checksums of RocksDB's blocks are not checked"),
    Option("keyType", "key_type", _text, "keys' type where a changelog does not hold it: Long, or uid → type as JSON"),
    Option("pathMapping", "path_mapping", _mapping, "old prefixes of moved files to new ones, a JSON object"),
)  # fmt: skip
"""All options but those of the storage (``fs.…``), in the order in which people think of them."""

_BY_NAME = {option.name.lower(): option for option in OPTIONS}


def parse_options(raw: Mapping[str, str]) -> SourceOptions:
    """The options as Spark gives them (keys in any case). Raises InvalidOption."""
    values: dict[str, Any] = {}
    storage: dict[str, Any] = {}
    for name, text in raw.items():
        key = name.lower()
        if key.startswith(STORAGE_PREFIX):
            storage[name[len(STORAGE_PREFIX) :]] = storage_value(text)
            continue
        option = _BY_NAME.get(key)
        if option is None:
            raise _unknown(key)
        try:
            values[option.field] = option.read(text)
        except ValueError as error:
            raise InvalidOption(f"option {option.name}={text!r}", advice=f"give {error}") from error
    if not values.get("path"):
        raise InvalidOption(
            "no path given",
            advice=f'load("/path/of/savepoint"), or in SQL: {_SQL}',
        )
    options = SourceOptions(**values, storage_options=storage)
    _check_selection(options)
    return options


def _unknown(key: str) -> InvalidOption:
    if key == "paths":
        return InvalidOption("several paths given", advice="load one snapshot at a time and union the DataFrames")
    if key in ("location", "owner", "provider"):  # what Spark passes for a table of its catalog
        return InvalidOption("CREATE TABLE … USING savepoint loses its options at reading", advice=_SQL)
    near = difflib.get_close_matches(key, _BY_NAME, n=2, cutoff=0.6)
    names = [_BY_NAME[name].name for name in near] or [option.name for option in OPTIONS]
    start = "did you mean " if near else "there are: "
    return InvalidOption(
        f"no option '{key}'",
        advice=start + (" or " if near else ", ").join(names) + f"{'?' if near else ''}; "
        f"storage options begin with '{STORAGE_PREFIX}'",
    )


def _check_selection(options: SourceOptions) -> None:
    chosen = {
        "state": options.state, "operatorState": options.operator_state, "timers": options.timers,
        "table": options.table,
    }  # fmt: skip
    given = [name for name, value in chosen.items() if value is not None]
    if len(given) > 1:
        raise InvalidOption(f"options {given[0]} and {given[1]} exclude each other", advice="give one of them")
    if options.uid is not None and options.uid_hash is not None:
        raise InvalidOption("options uid and uidHash exclude each other", advice="give one of them")
    if given and given != ["table"] and options.uid is None and options.uid_hash is None:
        raise InvalidOption(
            f"option {given[0]} needs an operator",
            advice="give uid or uidHash as well; without any of them you get the catalog that names them all",
        )
    if options.namespace is not None and given:
        raise InvalidOption(
            f"option namespace does not go with {given[0]}",
            advice="it chooses among the wide tables of an operator",
        )
