"""The one family of errors that stateproc raises; every message says where, what, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Where:
    """A place in a snapshot: file, byte offset in it, operator and state. Any part may be unknown."""

    file: str | None = None
    offset: int | None = None
    operator: str | None = None
    state: str | None = None

    def __str__(self) -> str:
        parts = []
        if self.file is not None:
            parts.append(f"file {self.file}")
        if self.offset is not None:
            parts.append(f"byte {self.offset}")
        if self.operator is not None:
            parts.append(f"operator {self.operator}")
        if self.state is not None:
            parts.append(f"state '{self.state}'")
        return ", ".join(parts)


class SnapshotError(Exception):
    """Base of all errors about a snapshot.

    ``message`` says what was found and expected, ``where`` the place, ``advice`` what to do.
    """

    def __init__(self, message: str, *, where: Where | None = None, advice: str | None = None) -> None:
        super().__init__(message, where, advice)
        self.message = message
        self.where = where or Where()
        self.advice = advice

    def __str__(self) -> str:
        place = str(self.where)
        text = f"{self.message} [{place}]" if place else self.message
        return f"{text}\n  → {self.advice}" if self.advice else text

    def at(self, **where: Any) -> SnapshotError:
        """This error with the still unknown parts of its place filled in (``file=``, ``operator=`` …)."""
        known = {name: value for name, value in where.items() if getattr(self.where, name) is None}
        return type(self)(self.message, where=replace(self.where, **known), advice=self.advice)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.where, self.advice)


def _rebuild(kind: type[SnapshotError], message: str, where: Where, advice: str | None) -> SnapshotError:
    return kind(message, where=where, advice=advice)


class CorruptSnapshot(SnapshotError):
    """Bytes that no Flink writes: truncated, altered, or not the format they claim to be."""


class UnsupportedSnapshot(SnapshotError):
    """Valid, as far as seen, but of a version, format or class that cannot be read (yet, or from bytes alone)."""


class MissingFile(SnapshotError):
    """A file of the snapshot, or the snapshot itself, is not where it should be."""


class NotFound(SnapshotError):
    """No operator, state or table of that name in the snapshot; the advice offers the nearest names."""


class InvalidOption(SnapshotError):
    """An option or argument given by the user does not fit."""


class InvalidEntries(SnapshotError):
    """Entries that no state file can hold: not in order, of a state or key group that is not the file's."""


class DuplicateKey(InvalidEntries):
    """Two entries of one state with the same key (and namespace, and user key): a state holds one.

    ``entry``: the second one as (key group, state id, key bytes, value bytes), where it is at hand.
    """

    entry: tuple[int, int, bytes, bytes] | None = None


class WriteFailed(SnapshotError):
    """A file could not be written, or the snapshot not be completed; nothing that can be loaded was left behind."""


class InvalidRows(SnapshotError):
    """Rows of a DataFrame that cannot become state: a null key, a value that its type cannot hold; they are shown."""


def not_found(what: str, name: str, known: Iterable[str], inside: str | None = None) -> NotFound:
    """Return the error for a name that does not exist, with the nearest names, or all if there are few.

    Args:
        what: The kind of thing, e.g. "keyed state".
        name: The name that was asked for.
        known: The names that exist.
        inside: Where it was looked up, e.g. "operator 'orders'".
    """
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=5, cutoff=0.5)
    if near:
        advice = "did you mean " + " or ".join(repr(item) for item in near) + "?"
    elif names:
        shown = ", ".join(repr(item) for item in names[:20])
        advice = f"there are: {shown}" + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    else:
        advice = "there are none"
    return NotFound(f"no {what} {name!r}" + (f" in {inside}" if inside else ""), advice=advice)
