"""List all options for reading, and parse those of a Spark data source."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.options import parsers
from stateproc.options.definition import Interface, OptionDefinition, choice_option

SPLIT_BYTES = 256 << 20
"""Target size of a split in bytes."""
TEMPORAL = ("micros", "exact", "lossless")
ON_LOSS = ("cut", "fail")
TIME_DOMAINS = ("event", "processing")
ON_ERROR = ("fail", "null")
OPAQUE = ("fail", "bytes")
CASE_CLASS_ARITY = ("present", "absent")
_ARITY_HELP = "whether case classes of flink-scala-api 1.x begin with their number of fields, if values fit both"
CHANGE_FEED_MODES = ("steps", "net")
LIST_CHANGES = ("whole", "appended")
STREAMING_MODES = ("changes", "snapshots")
METADATA_TABLES = ("states", "operators", "files", "coordinators", "rocksdb")
STORAGE_PREFIX = "fs."
"""Spark options that begin with this prefix are keyword arguments of the fsspec file system."""

_PYTHON_AND_SPARK = frozenset({Interface.PYTHON, Interface.SPARK})
_SPARK_AND_CLI = frozenset({Interface.SPARK, Interface.CLI})
_PYTHON_AND_CLI = frozenset({Interface.PYTHON, Interface.CLI})
_SPARK = frozenset({Interface.SPARK})

PATH = OptionDefinition(
    "path", str, parsers.text, "the snapshot: its directory, its _metadata, or a checkpoint root", metavar="PATH"
)
OPEN_OPTIONS: tuple[OptionDefinition, ...] = (
    OptionDefinition(
        "uids",
        tuple,
        parsers.name_list,
        "uids of the job, to name operators of Flink 1.x snapshots; @FILE: one per line, or a plan as JSON",
        (),
        metavar="A,B",
    ),
    OptionDefinition(
        "classes",
        object,
        parsers.text,
        "descriptions of user classes: JSON text or the path of a JSON file",
        metavar="FILE",
    ),
    OptionDefinition(
        "plugins", tuple, parsers.name_list, "Python modules that register parsers, comma separated", (), metavar="A,B"
    ),
    choice_option(
        "temporal", TEMPORAL, "micros; exact: text with nanoseconds; lossless: text only of types that have these"
    ),
    choice_option(
        "on_loss",
        ON_LOSS,
        "what columns cannot hold, such as digits below a microsecond: cut (default), or fail",
        interfaces=_PYTHON_AND_SPARK,
    ),
    OptionDefinition(
        "row_kind", bool, parsers.boolean, "a column with the RowKind of Rows", False, interfaces=_PYTHON_AND_SPARK
    ),
    OptionDefinition(
        "kryo", int, parsers.kryo_version, "2 or 5, default by the release that wrote the snapshot", choices=("2", "5")
    ),
    OptionDefinition(
        "verify", bool, parsers.boolean, "whether checksums of RocksDB's blocks are checked, default true", True
    ),
    choice_option(
        "on_error",
        ON_ERROR,
        "selected states that cannot be decoded: fail, or null columns and a warning; default fail",
    ),
    choice_option(
        "opaque",
        OPAQUE,
        "values of unknown types: fail, or their bytes where the files have their length; default fail",
    ),
    OptionDefinition("case_class_arity", str, parsers.one_of(CASE_CLASS_ARITY), _ARITY_HELP, choices=CASE_CLASS_ARITY),
    OptionDefinition(
        "key_type",
        object,
        parsers.text,
        "keys' type where a changelog does not contain it: Long, or uid → type as JSON",
        metavar="TYPE",
    ),
    OptionDefinition(
        "value_type", object, parsers.text, "a Python state's type: LONG, LIST<STRING>, or as JSON", metavar="TYPE"
    ),
    OptionDefinition(
        "plan",
        object,
        parsers.text,
        "the compiled plan of a SQL job, for the names of its columns: a JSON file, or its text",
        metavar="FILE",
    ),
    OptionDefinition(
        "proto",
        object,
        parsers.text,
        "descriptor set of Protobuf messages in Kryo values, from protoc --include_imports --descriptor_set_out",
        metavar="FILE",
    ),
    OptionDefinition(
        "storage_options",
        dict,
        parsers.storage_settings,
        "settings of the file system (fsspec)",
        metavar="NAME=VALUE",
        cli_aliases=("--storage",),
        secret=True,
    ),
    OptionDefinition(
        "path_mapping",
        dict,
        parsers.prefix_mapping,
        "old prefixes of moved files to new ones, a JSON object or OLD=NEW",
        metavar="OLD=NEW",
        cli_aliases=("--moved",),
    ),
    OptionDefinition(
        "allowed_roots",
        tuple,
        parsers.name_list,
        "directories outside of the snapshot's checkpoint root whose files may be read, comma separated; repeatable",
        (),
        metavar="DIR",
        cli_names=("--allow-root",),
        repeatable=True,
    ),
)
"""The keyword arguments of :func:`stateproc.open`."""

SELECT_OPTIONS: tuple[OptionDefinition, ...] = (
    OptionDefinition(
        "uid",
        str,
        parsers.text,
        "the operator, by uid (or by name, if only one operator has it)",
        interfaces=_SPARK_AND_CLI,
    ),
    OptionDefinition(
        "uid_hash",
        str,
        parsers.uid_hash,
        "the operator, by uid hash (operator id): 32 hex digits, or the first ones",
        metavar="H",
        interfaces=_SPARK_AND_CLI,
    ),
    OptionDefinition("state", str, parsers.text, "a state, by name", metavar="S", interfaces=_SPARK_AND_CLI),
    OptionDefinition(
        "operator_state",
        str,
        parsers.text,
        "a list, union or broadcast state, by name",
        metavar="NAME",
        interfaces=_SPARK_AND_CLI,
    ),
    OptionDefinition(
        "timers",
        str,
        parsers.one_of(TIME_DOMAINS),
        "the operator's timers: event or processing",
        choices=TIME_DOMAINS,
        interfaces=_SPARK_AND_CLI,
    ),
    OptionDefinition(
        "table",
        str,
        parsers.one_of(METADATA_TABLES),
        f"a metadata table: {', '.join(METADATA_TABLES)} (default without uid: states)",
        choices=METADATA_TABLES,
        interfaces=_SPARK,
    ),
    OptionDefinition(
        "namespace",
        str,
        parsers.text,
        "of the wide table: the namespace type whose states are joined",
        metavar="TYPE",
    ),
)
"""Which operator, and which of its states or which metadata table; see :mod:`stateproc.snapshot.selection`."""

ROW_OPTIONS: tuple[OptionDefinition, ...] = (
    OptionDefinition(
        "flatten",
        bool,
        parsers.boolean,
        "one row per list element or map entry",
        False,
        spark_aliases=("flattenCollectionTypes",),
    ),
    OptionDefinition(
        "raw",
        bool,
        parsers.boolean,
        "source and sink states as their bytes, not decoded into columns",
        False,
        interfaces=_SPARK_AND_CLI,
    ),
    OptionDefinition(
        "columns", tuple, parsers.name_list, "only these columns, comma separated or a JSON list", metavar="A,B"
    ),
    OptionDefinition(
        "key_groups",
        frozenset,
        parsers.key_group_set,
        "only these key groups, such as 0-15,42",
        interfaces=_PYTHON_AND_SPARK,
        spark_aliases=("keyGroup",),
    ),
    OptionDefinition(
        "keys",
        tuple,
        parsers.key_list,
        "only the key groups of these keys, a JSON list; filter on key as well",
        interfaces=_PYTHON_AND_SPARK,
    ),
    OptionDefinition(
        "split_bytes",
        int,
        parsers.byte_size,
        "bytes per Spark partition, such as 64m; default 256m",
        SPLIT_BYTES,
        interfaces=_PYTHON_AND_SPARK,
    ),
    OptionDefinition(
        "threads",
        int,
        parsers.thread_count,
        "threads that read and decode; default: the cores that the process may use",
        metavar="N",
        interfaces=_PYTHON_AND_CLI,
    ),
)
"""Which rows and columns of the selected state, and how reading them is divided."""

FEED_OPTIONS: tuple[OptionDefinition, ...] = (
    OptionDefinition(
        "read_change_feed",
        bool,
        parsers.boolean,
        "rows are what changed in the state between snapshots",
        False,
        interfaces=_SPARK,
    ),
    OptionDefinition(
        "starting_snapshot",
        str,
        parsers.text,
        "the earlier snapshot of a change feed: its path",
        metavar="PATH",
        interfaces=_SPARK,
    ),
    OptionDefinition(
        "ending_snapshot",
        str,
        parsers.text,
        "the later snapshot of a change feed: its path; default the path that is loaded",
        metavar="PATH",
        interfaces=_SPARK,
    ),
    OptionDefinition(
        "starting_checkpoint",
        int,
        parsers.checkpoint_id,
        "changes after the checkpoint of this id; default: everything in the oldest checkpoint is inserted first",
        metavar="ID",
        cli_names=("--from",),
    ),
    OptionDefinition(
        "ending_checkpoint",
        int,
        parsers.checkpoint_id,
        "changes up to and including the checkpoint of this id; default the newest",
        metavar="ID",
        cli_names=("--to",),
    ),
    OptionDefinition(
        "change_feed_mode",
        str,
        parsers.one_of(CHANGE_FEED_MODES),
        "steps: one checkpoint after another (default); net: the first compared with the last",
        "steps",
        choices=CHANGE_FEED_MODES,
        cli_names=("--mode",),
    ),
    OptionDefinition(
        "list_changes",
        str,
        parsers.one_of(LIST_CHANGES),
        "changes of lists: whole (default), or appended: each element is a row with its position",
        "whole",
        choices=LIST_CHANGES,
    ),
    OptionDefinition(
        "times",
        bool,
        parsers.boolean,
        "times of last access (TTL) count as changes, too",
        False,
        cli_aliases=("--last-access",),
    ),
)
"""What a change feed compares, and what counts as a change."""

STREAM_OPTIONS: tuple[OptionDefinition, ...] = (
    OptionDefinition(
        "streaming_mode",
        str,
        parsers.one_of(STREAMING_MODES),
        "rows of a stream: changes, as readChangeFeed; snapshots: the whole state at each checkpoint",
        choices=STREAMING_MODES,
        interfaces=_SPARK,
    ),
    OptionDefinition(
        "roots",
        tuple,
        parsers.name_list,
        "further directories with checkpoints and savepoints of the job, comma separated or a JSON list",
        (),
        metavar="A,B",
        interfaces=_SPARK,
    ),
    OptionDefinition(
        "max_checkpoints_per_trigger",
        int,
        parsers.positive_number,
        "at most so many checkpoints per batch of a stream; default all that are new",
        metavar="N",
        interfaces=_SPARK,
    ),
    OptionDefinition(
        "fail_on_data_loss",
        bool,
        parsers.boolean,
        "whether checkpoints that were deleted before the stream had read them are an error, default true",
        True,
        interfaces=_SPARK,
    ),
)
"""What a stream follows, and how."""

OPTIONS: tuple[OptionDefinition, ...] = (
    PATH,
    *SELECT_OPTIONS,
    *ROW_OPTIONS,
    *FEED_OPTIONS,
    *STREAM_OPTIONS,
    *OPEN_OPTIONS,
)
BY_NAME: Mapping[str, OptionDefinition] = {option.name: option for option in OPTIONS}


def parse_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the options of a Spark data source: names in any case, ``fs.…`` collected as storage options.

    Returns:
        Python spelling → value; options that are not given have their default.

    Raises:
        InvalidOption: A name is unknown or a value does not fit.
    """
    known = {
        name.lower(): option
        for option in OPTIONS
        if Interface.SPARK in option.interfaces
        for name in (option.spark_name, option.name, *option.spark_aliases)
    }
    values: dict[str, Any] = {option.name: option.default for option in known.values()}
    storage: dict[str, Any] = {}
    for name, text in given.items():
        if name.lower().startswith(STORAGE_PREFIX):
            storage[name[len(STORAGE_PREFIX) :]] = parsers.storage_value(text) if isinstance(text, str) else text
            continue
        option = known.get(name.lower())
        if option is None:
            raise unknown_option(name, known)
        values[option.name] = option.value(text, Interface.SPARK)
    if storage:
        values["storage_options"] = {**(values.get("storage_options") or {}), **storage}
    return values


def unknown_option(name: str, known: Mapping[str, OptionDefinition]) -> InvalidOption:
    """Return the error for a Spark option that does not exist, with the nearest names."""
    near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.6)
    names = list(dict.fromkeys(known[item].spark_name for item in near or known))
    advice = f"did you mean {' or '.join(names)}?" if near else f"there are: {', '.join(names)}"
    return InvalidOption(f"no option '{name}'", advice=f"{advice}; storage options begin with '{STORAGE_PREFIX}'")


def open_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the option values that are keyword arguments of :func:`stateproc.open`."""
    return {option.name: values[option.name] for option in OPEN_OPTIONS if option.name in values}
