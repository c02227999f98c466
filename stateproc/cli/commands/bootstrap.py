"""``stateproc bootstrap``: write a savepoint with one state, as a job file with one source and one operator would."""

from __future__ import annotations

from argparse import Namespace
from pathlib import PurePosixPath
from typing import Any

from stateproc.cli.definitions.writing import state_arguments
from stateproc.cli.exit_status import YES
from stateproc.cli.write_output import chosen_engine, print_plan_or_report, storage_settings
from stateproc.errors import InvalidOption
from stateproc.jobs.engines import opened_tables
from stateproc.jobs.job_writer import writer_of
from stateproc.jobs.loading import Secrets, load_job
from stateproc.jobs.prepared_run import prepare
from stateproc.jobs.state_kinds import STATE_KINDS
from stateproc.storage.store import StorePath

_BY_SUFFIX = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".arrow": "arrow"}
_SPARK_CSV = {"header": "true", "inferSchema": "true"}
ROWS, QUERIED = "rows", "queried"


def bootstrap_command(arguments: Namespace) -> int:
    """Write the savepoint, or print its plan; return the exit status."""
    run = prepare(load_job(_job(arguments), environment={}), Secrets())
    with chosen_engine(arguments, "stateproc bootstrap") as spark, opened_tables(run, spark) as tables:
        print_plan_or_report(writer_of(run, tables, spark), arguments)
    return YES


def _job(arguments: Namespace) -> dict[str, Any]:
    """The arguments as a job. Raises InvalidOption."""
    sources: dict[str, Any] = {ROWS: _source(arguments)}
    if arguments.sql is not None:
        sources[QUERIED] = {"sql": arguments.sql}
    operator = {"uid": arguments.uid, "states": [_state(arguments)]} | _given(
        arguments, ("key", "key_type", "hash_column", "parallelism")
    )
    if arguments.extend:
        operator["extend"] = True
        named = [name for name in ("key", "key_type", "hash_column") if name in operator]
        if named:
            raise InvalidOption(
                f"{_flag(named[0])} with --extend: the operator has keys already",
                advice="name their column key: --sql 'SELECT id AS key, * FROM rows'",
            )
    target = {"path": arguments.target} | _given(arguments, ("max_parallelism", "flink_version"))
    if arguments.to is not None:
        target["format"] = arguments.to
    if arguments.target_storage_options is not None:
        target["storage_options"] = storage_settings(arguments.target_storage_options)
    base = {} if arguments.base is None else {"base": {"path": arguments.base}}
    parts = {"sources": sources, "operators": [operator], "target": target}
    return {"job": "bootstrap", "engine": arguments.engine, **base, **parts}


def _source(arguments: Namespace) -> dict[str, Any]:
    options = storage_settings(arguments.storage_options or [])
    found = arguments.format or _format_of(arguments.path, options)
    if found == "arrow" and arguments.engine == "spark":
        raise InvalidOption("Spark does not read Arrow files", advice="leave out --engine spark, or give Parquet")
    source = {"format": found, "path": arguments.path, **_given(arguments, ("version",))}
    if found == "csv" and arguments.engine == "spark":
        source["options"] = dict(_SPARK_CSV)
    return {**source, "storage_options": options} if options else source


def _format_of(path: str, options: dict[str, Any]) -> str:
    by_suffix = _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())
    if by_suffix is not None:
        return by_suffix
    if (StorePath.of(path, options) / "_delta_log").exists():
        return "delta"
    raise InvalidOption(f"the format of {path} is not known", advice="give --format parquet, csv, json, arrow or delta")


def _state(arguments: Namespace) -> dict[str, Any]:
    """The state, with the arguments that its kind has. Raises InvalidOption for others."""
    kind = STATE_KINDS[arguments.kind]
    given = _given(arguments, tuple(state_arguments()))
    others = [name for name in given if name not in kind.arguments]
    if others:
        raise InvalidOption(
            f"{arguments.kind} states have no {_flag(others[0])}",
            advice=f"they have {', '.join(map(_flag, kind.arguments))}",
        )
    if kind.named and arguments.state is None:
        raise InvalidOption(f"a {arguments.kind} state without a name", advice="give --state: that of the descriptor")
    if isinstance(given.get("window"), str) and "," in given["window"]:
        given["window"] = given["window"].split(",")
    name = {"name": arguments.state} if kind.named else {}
    return {"kind": arguments.kind, "source": ROWS if arguments.sql is None else QUERIED, **name, **given}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _given(arguments: Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}
