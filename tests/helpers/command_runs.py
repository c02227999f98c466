"""What a command printed, and its exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from stateproc.cli import main


@dataclass(frozen=True)
class CommandRun:
    """A command that has ended.

    Attributes:
        status: Its exit status.
        out: What it printed to stdout.
        err: What it printed to stderr.
    """

    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """The JSON lines of a command that succeeded."""
        assert self.status == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]

    def checked(self, command: str) -> Any:
        """The output as JSON, which fits the command's schema."""
        found = json.loads(self.out)
        _validator(command).validate(found)
        return found


@cache
def _validator(command: str) -> jsonschema.Draft202012Validator:
    """Return what checks the output of a command. Raises SchemaError for a wrong schema."""
    schema = json.loads((files("stateproc.cli") / "json_schemas" / f"{command}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def command_runner(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandRun]:
    """Return a function that runs a command in this process, as into a pipe: pytest sets COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: str) -> CommandRun:
        status = main(arguments)
        sys.stdout.flush()
        return CommandRun(status, *capfd.readouterr())

    return run
