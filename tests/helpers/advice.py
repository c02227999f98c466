"""Follow the advice of errors, as a user who has the job's classes would, to the values or to a final sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stateproc.errors import SnapshotError

DAMAGED = re.compile(r"damaged|take the snapshot again|from a copy|truncated")
"""Words that call a file damaged, which no error about an intact one may say."""
_DESCRIBED = re.compile(r'(?:classes=\{|describe[^:"]*:?\s*)["\']([\w.$]+)["\']')
_OPTION = re.compile(r"\((\w+)=['\"](\w+)['\"]\)")
_ALLOWED = re.compile(r"allowed_roots=\['([^']+)'\]")
_MOST_STEPS = 12


class Circle(AssertionError):
    """Advice was followed and led back to the same error, or to none that helps."""


@dataclass
class Followed:
    """What following advice led to.

    Attributes:
        rows: The state's rows; None if a final error is left.
        error: That error.
        options: The options that the advice said to give.
        steps: The errors on the way.
    """

    rows: list[dict[str, Any]] | None
    error: SnapshotError | None
    options: dict[str, Any]
    steps: list[str] = field(default_factory=list)


def follow(
    read: Callable[[dict[str, Any]], list[dict[str, Any]]],
    classes: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> Followed:
    """Read a state, doing what each error advises: describe the named class as the job has it, give the option.

    Args:
        read: Reads the state with options by their Python names.
        classes: The descriptions of the job's classes by their headings, from which named ones are taken.
        options: Options that the user begins with.

    Raises:
        Circle: An error came back after its advice had been followed, or its advice names a class that is described,
            or an intact file is called damaged.
    """
    headings = {_name_of(heading): heading for heading in classes}
    given: dict[str, Any] = dict(options or {})
    steps: list[str] = []
    for _ in range(_MOST_STEPS):
        try:
            return Followed(read(given), None, given, steps)
        except SnapshotError as error:
            text = f"{error.message}\n  → {error.advice}"
            if DAMAGED.search(text):
                raise Circle("\n".join([*steps, text, "an intact file is called damaged"])) from error
            if text in steps:
                raise Circle("\n".join([*steps, text, "the advice led back"])) from error
            steps.append(text)
            if not _followed(error.advice or "", headings, classes, given):
                return Followed(None, error, given, steps)
    raise Circle("\n".join([*steps, f"no end after {_MOST_STEPS} errors"]))


def _followed(advice: str, headings: Mapping[str, str], classes: Mapping[str, Any], given: dict[str, Any]) -> bool:
    """Do what the advice says; return whether there was something that has not been done yet."""
    described = json.loads(given.get("classes", "{}"))
    for name in _DESCRIBED.findall(advice):
        heading = headings.get(name)
        if heading is not None and heading not in described:
            given["classes"] = json.dumps(described | {heading: classes[heading]})
            return True
    for root in _ALLOWED.findall(advice):
        if root not in given.get("allowed_roots", ()):
            given["allowed_roots"] = (*given.get("allowed_roots", ()), root)
            return True
    for name, value in _OPTION.findall(advice):
        if given.get(name) != value:
            given[name] = value
            return True
    return False


def _name_of(heading: str) -> str:
    """Return the class name of a description's heading."""
    own = heading.partition(" extends ")[0].partition(" implements ")[0].partition("<")[0]
    return own.split()[-1]
