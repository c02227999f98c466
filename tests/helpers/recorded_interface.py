"""What others depend on, as recorded: arguments of the command line, JSON schemas, digests of written state files.

``python -m tests.helpers.recorded_interface`` records them anew, after a change that is meant.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tempfile
import time
from argparse import Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from stateproc.cli import main
from stateproc.cli.app import command_parser
from stateproc.jobs.job_schema import job_schema
from stateproc.metadata.reader import read_metadata
from stateproc.metadata.stream_handles import ByteStreamHandle
from stateproc.metadata.walk import walk_stream_handles
from tests.helpers.fixtures import fixtures_in
from tests.helpers.paths import FIXTURES, ROOT

RECORDED = ROOT / "tests/vectors/interface.json"
_WRITES = (
    ("convert", "--to", "canonical"),
    ("convert", "--to", "native-hashmap"),
    ("convert", "--to", "native-rocksdb"),
    ("rescale", "--max-parallelism", "64"),
)
"""Verbs that write every kind of state file; the source has keyed states of all kinds."""


def interface() -> dict[str, Any]:
    """Return everything that is recorded."""
    return {"arguments": arguments(), "schemas": schemas(), "state files": written()}


def arguments() -> dict[str, list[str]]:
    """Return the arguments of every command with their help texts; argparse's own layout differs between Pythons."""
    return {
        name: [f"{_name(action)}: {action.help}" for action in parser._actions]
        for name, parser in _commands(command_parser())
    }


def _commands(parser: ArgumentParser, prefix: str = "") -> Iterator[tuple[str, ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for name, command in action.choices.items():
                yield f"{prefix}{name}", command
                yield from _commands(command, f"{prefix}{name} ")


def _name(action: Action) -> str:
    choices = "" if action.choices is None else "{" + ",".join(map(str, action.choices)) + "}"
    parts = (", ".join(action.option_strings) or action.dest, str(action.metavar or ""), choices)
    return " ".join(part for part in parts if part)


def schemas() -> dict[str, str]:
    """Return digests of the JSON schemas of reports and of job files."""
    folder = ROOT / "stateproc/cli/json_schemas"
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}
    texts["job file"] = json.dumps(job_schema(), sort_keys=True)
    return {name: _digest(text.encode()) for name, text in texts.items()}


def written() -> dict[str, list[str]]:
    """Return digests of the state files that verbs write, also those within ``_metadata``. Their names are random."""
    return {" ".join(words): _written(words) for words in _WRITES}


def _source() -> str:
    return fixtures_in(FIXTURES / "1.20" / "kitchen-hashmap-canonical")[-1].snapshot


def _written(words: tuple[str, ...]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(time, "time", lambda: 1_700_000_000.0):
        target = Path(folder) / "savepoint"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            status = main([words[0], _source(), str(target), *words[1:]])
        assert status == 0, words
        metadata = read_metadata((target / "_metadata").read_bytes(), file="_metadata")
        handles = (use.handle for use in walk_stream_handles(metadata))
        inline = [handle.data for handle in handles if isinstance(handle, ByteStreamHandle)]
        files = (path for path in target.rglob("*") if path.is_file() and path.name != "_metadata")
        return sorted(_digest(data) for data in (*inline, *(path.read_bytes() for path in files)))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(interface(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
