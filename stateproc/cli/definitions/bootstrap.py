"""The arguments of ``stateproc bootstrap``, built from the table of state kinds."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from stateproc.cli.command_definition import CommandDefinition
from stateproc.cli.definitions.verbs import add_writing_options
from stateproc.jobs.job_model import STATE_KINDS

FORMATS = ("parquet", "csv", "json", "arrow", "delta")


def state_arguments() -> Mapping[str, Mapping[str, Any]]:
    """Return the arguments of all kinds of states, each with the JSON Schema of its value."""
    return {name: schema for kind in STATE_KINDS.values() for name, schema in kind.arguments.items()}


def _add_state_argument(group: Any, name: str, schema: Mapping[str, Any]) -> None:
    flag = "--" + name.replace("_", "-")
    kinds = [kind for kind, found in STATE_KINDS.items() if name in found.arguments]
    shown = "all kinds" if len(kinds) > 6 else ", ".join(kinds)
    help_ = schema.get("description", "an option of the state")
    options: dict[str, Any] = {"default": None, "help": f"{help_} ({shown})"}
    if schema.get("type") == "boolean":
        group.add_argument(flag, action="store_true", **options)
    elif "enum" in schema:
        whole = isinstance(schema["enum"][0], int)
        group.add_argument(flag, choices=schema["enum"], type=int if whole else str, **options)
    else:
        is_number = schema.get("type") == "integer"
        metavar = "N" if is_number else ("TYPE" if name.endswith("type") else "COLUMN")
        group.add_argument(flag, metavar=metavar, type=int if is_number else str, **options)


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="SOURCE", help="rows: a file, a directory of files, a glob or a Delta table")
    parser.add_argument("target", metavar="TARGET", help="the directory of the savepoint, local or any fsspec URI")
    source = parser.add_argument_group("rows")
    source.add_argument("--format", choices=FORMATS, help="default by the file's suffix; delta for a Delta table")
    source.add_argument("--version", type=int, metavar="N", help="the version of a Delta table; default the newest")
    source.add_argument("--sql", metavar="QUERY", help="a query over the rows, which it calls rows")
    source.add_argument(
        "--storage-options", action="append", metavar="NAME=VALUE", help="settings of SOURCE's file system; repeatable"
    )
    state = parser.add_argument_group("the state")
    state.add_argument("--uid", required=True, metavar="UID", help="the operator's uid, or its uid hash")
    state.add_argument("--kind", required=True, choices=tuple(STATE_KINDS), help="the kind of state")
    state.add_argument("--state", metavar="NAME", help="the name of the state's descriptor; timers have none")
    state.add_argument("--key", metavar="COLUMN", help="the column of keys; default key")
    state.add_argument("--key-type", metavar="TYPE", help="the Flink type of keys; default that of the column")
    state.add_argument("--hash-column", metavar="COLUMN", help="the column of hashCodes of keys of a class of its own")
    for name, schema in state_arguments().items():
        _add_state_argument(state, name, schema)
    savepoint = parser.add_argument_group("the savepoint")
    savepoint.add_argument("--base", metavar="PATH", help="a snapshot to copy and to add the state to")
    savepoint.add_argument(
        "--extend", action="store_true", help="add the state to the base's operator, instead of replacing all its state"
    )
    savepoint.add_argument("--max-parallelism", type=int, metavar="N", help="key groups of all operators; default 128")
    savepoint.add_argument("--parallelism", type=int, metavar="N", help="the operator's number of subtasks")
    savepoint.add_argument("--flink-version", metavar="V", help="the release that restores it; default 1.20")
    savepoint.add_argument("--to", choices=("canonical", "native-hashmap", "native-rocksdb"), help="default canonical")
    add_writing_options(parser)


BOOTSTRAP = CommandDefinition(
    "bootstrap",
    "write a savepoint with one state from Parquet, CSV, JSON, Arrow or Delta",
    _add_arguments,
    (
        "stateproc bootstrap customers.parquet /savepoints/new --uid customers --kind value --state name --key id",
        "stateproc bootstrap s3://lake/totals /savepoints/new --format delta --uid orders --kind map --state totals "
        "--map-key product --map-value total",
    ),
)
