"""Define the errors that stateproc raises. Every message says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from stateproc.redaction import redacted

CHECK_FILE = (
    "if that does not help: `stateproc verify` checks the files' checksums and lengths, and all other states; where it "
    "finds nothing else, the files are as Flink wrote them"
)
"""Ends the advice where the bytes do not show whether a description, an option, or the file is wrong."""


@dataclass(frozen=True)
class Where:
    """A position in a snapshot; unknown parts are None.

    Attributes:
        file: The path or URI of a file.
        offset: The byte offset in that file.
        operator: The operator's uid, or its id.
        state: The state's name.
    """

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
    """Base class of all errors that stateproc raises.

    Attributes:
        message: What is wrong.
        where: The position in the snapshot.
        advice: What to do; None if there is nothing to recommend.
    """

    def __init__(self, message: str, *, where: Where | None = None, advice: str | None = None) -> None:
        # Addresses of stores, and what their clients say, may contain passwords and signatures.
        self.message = redacted(message)
        self.where = _without_password(where or Where())
        self.advice = None if advice is None else redacted(advice)
        super().__init__(self.message, self.where, self.advice)

    def __str__(self) -> str:
        place = str(self.where)
        text = f"{self.message} [{place}]" if place else self.message
        return f"{text}\n  → {self.advice}" if self.advice else text

    def at(self, **where: Any) -> SnapshotError:
        """Return this error with the unknown parts of its position filled in.

        Args:
            **where: Attributes of :class:`Where`; those that the error has already are kept.
        """
        known = {name: value for name, value in where.items() if getattr(self.where, name) is None}
        return type(self)(self.message, where=replace(self.where, **known), advice=self.advice)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.where, self.advice)


@contextmanager
def located(only: type[SnapshotError] = SnapshotError, **where: Any) -> Iterator[None]:
    """Fill in the unknown parts of the position of errors raised in this context; ``only``: of this kind.

    Arguments as for `SnapshotError.at`.
    """
    try:
        yield
    except only as error:
        raise error.at(**where) from error


def _without_password(where: Where) -> Where:
    return where if where.file is None or "@" not in where.file else replace(where, file=redacted(where.file))


def _rebuild(kind: type[SnapshotError], message: str, where: Where, advice: str | None) -> SnapshotError:
    return kind(message, where=where, advice=advice)


class CorruptSnapshot(SnapshotError):
    """The bytes are not what any Flink release writes: truncated, altered, or of another format."""


class UnsupportedSnapshot(SnapshotError):
    """The snapshot is valid as far as it was read, but has a version, format or class that cannot be read."""


class UnknownKeyType(UnsupportedSnapshot):
    """Nothing says which type the keys of a changelog have: nothing is materialized, and the log has no timers."""


class MissingFile(SnapshotError):
    """The snapshot or one of its files does not exist at its path."""


class AccessDenied(SnapshotError):
    """A file system or store refuses access: permissions, or credentials in the storage options."""


class StoreUnavailable(SnapshotError):
    """A file system or store cannot be reached, or answers with an error of its own."""


class LostCheckpoint(MissingFile):
    """Checkpoints were deleted before a stream had read them; the advice says how it goes on without them."""


class UntrustedPath(MissingFile):
    """A file is only where ``_metadata`` names it, outside of the snapshot's checkpoint root; it is not read there."""


class MisplacedFile(UntrustedPath):
    """A file of a claimed savepoint is in a directory that ``_metadata`` does not name; it is not read there."""


class NotFound(SnapshotError, KeyError):
    """The snapshot has no operator, state, table or column of that name; the advice lists the nearest names."""


class InvalidOption(SnapshotError, ValueError):
    """An option or argument has a value that is not accepted, or contradicts another."""


class MissingPackage(SnapshotError, ImportError):
    """What was asked for needs a package that is not installed; the advice is the command that installs it."""


class InvalidEntries(SnapshotError):
    """Entries cannot be written to a state file: out of order, or of another state or key group."""


class UnorderedEntries(InvalidEntries):
    """An entry comes after one that belongs after it."""


class DuplicateKey(InvalidEntries):
    """Two entries of one state have the same key, namespace and user key.

    Attributes:
        entry: The second of them as (key group, state id, key bytes, value bytes), if it is known.
    """

    entry: tuple[int, int, bytes, bytes] | None = None


class WriteFailed(SnapshotError):
    """A file could not be written or the snapshot could not be completed; no loadable snapshot remains."""


class CheckFailed(SnapshotError):
    """A check of a job does not hold; the savepoint was not committed."""


class InvalidRows(SnapshotError):
    """Rows of a DataFrame cannot be written as state, e.g. because a key is null; the message shows them."""


class QueryPlanWarning(UserWarning):
    """A state does not fit the query's plan, so that the fields of its rows keep the names `f0`, `f1`, …."""


class UnreadableStateWarning(UserWarning):
    """States that cannot be decoded are read as null, as ``on_error='null'`` asks; the message says which and why."""


class AmbiguousNamesWarning(UserWarning):
    """Columns or fields differ by case only, which Spark distinguishes only with ``spark.sql.caseSensitive``."""


class UnmatchedUidWarning(UserWarning):
    """Uids that were given to name operators match none of the snapshot; the message lists them."""


EXTRAS = {
    "deltalake": ("deltalake", "delta"),
    "delta": ("delta-spark", "delta-spark"),
    "duckdb": ("duckdb", "sql"),
    "google": ("protobuf", "proto"),
    "jsonschema": ("jsonschema", "jobs"),
    "numba": ("numba", "jit"),
    "pandas": ("pandas", "pandas"),
    "pyspark": ("pyspark", "spark"),
    "rocksdict": ("rocksdict", "rocksdb"),
    "sqlglot": ("sqlglot", "sql"),
}
"""Modules that a plain installation does not have: their package, and the extra that installs it."""


@contextmanager
def package_for(what: str, extra: str | None = None) -> Iterator[None]:
    """Import packages of extras within this context.

    Args:
        what: What needs them, the beginning of a sentence, such as "SQL".
        extra: The extra that installs all that it needs; default the package's own.

    Raises:
        MissingPackage: One is not installed; the advice is the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        package, own = EXTRAS[module]
        raise MissingPackage(
            f"{what} needs the package {package}, which is not installed",
            advice=f"pip install 'stateproc[{extra or own}]'",
        ) from error


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
