"""Give the codec's internal failures a place in the snapshot, and a cause: damage, or a description that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from stateproc.codec.errors import BadValue, Unrepresentable
from stateproc.codec.machine import DecodeFailure, HostFailure
from stateproc.errors import CHECK_FILE, CorruptSnapshot, InvalidOption, SnapshotError, UnsupportedSnapshot, Where

_ADVICE = (
    "the types do not fit the bytes: if a parser of yours or an option (case_class_arity, value_type) says what these "
    f"values are, correct it; {CHECK_FILE}, and the error is worth a report"
)
_SHOWN = 4


def misfit(what: str, described: Sequence[str], where: Where) -> SnapshotError:
    """Return the error for bytes that are not what the types say.

    Args:
        what: What is wrong.
        described: The classes of which only the user's descriptions say what values they have; then one of them may be
            wrong, and the file intact.
    """
    if not described:
        return CorruptSnapshot(what, where=where, advice=_ADVICE)
    names = [repr(name) for name in described[:_SHOWN]]
    if len(described) > _SHOWN:
        names.append(f"{len(described) - _SHOWN} more")
    classes = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    return InvalidOption(
        f"the bytes do not fit the description of {classes}: {what}",
        where=where,
        advice=f"correct the description of {classes}: all fields of the class, inherited ones too, each with the type "
        "that the class declares (a List is no ArrayList), and 'generic' before the name of a class that is no POJO "
        "for Flink, 'record' before that of a record; a class that is a Map or a Collection is described by what it "
        f'holds ("map<String, Object>", "list<Object>"){_enclosing(described)}; {CHECK_FILE}',
    )


def _enclosing(described: Sequence[str]) -> str:
    """Return what an inner class of a job with flink-scala also holds; empty where no class is nested in another."""
    for name in described:
        outer, _, inner = name.rpartition("$")
        if outer and inner:
            return f'; an inner class that is not static also has "this$0": "{outer}" where Kryo of Flink 1.x wrote it'
    return ""


@contextmanager
def placed(
    file: str, offset: Callable[[int], int], state: str | None = None, described: Sequence[str] = ()
) -> Iterator[None]:
    """Inside: failures of the codec become errors with a place, see `misfit`; ``offset`` maps positions in the buffer
    to file offsets."""
    try:
        yield
    except HostFailure as failure:
        error = failure.error
        at = offset(error.where.offset or 0)
        if described and type(error) is CorruptSnapshot:
            raise misfit(error.message, described, Where(file, at, state=state)) from failure
        inner = type(error)(error.message, where=Where(file, at), advice=error.advice)
        raise inner.at(state=state) from failure
    except DecodeFailure as failure:
        where = Where(file=file, offset=offset(failure.position), state=state)
        raise misfit(str(failure.args[0]), described, where) from failure
    except Unrepresentable as error:
        where = Where(file=file, offset=offset(0), state=state)
        raise UnsupportedSnapshot(str(error), where=where, advice=error.advice) from error
    except (BadValue, OverflowError, pa.ArrowInvalid) as error:
        where = Where(file=file, offset=offset(0), state=state)
        raise misfit(str(error) or type(error).__name__, described, where) from error
