"""Give the codec's internal failures a place in the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from stateproc.codec.errors import BadValue, Unrepresentable
from stateproc.codec.machine import DecodeFailure, HostFailure
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot, Where

_ADVICE = "the file is damaged, or the type was read wrongly; try a copy of the file, and report it if that fails too"


@contextmanager
def placed(file: str, offset: Callable[[int], int], state: str | None = None) -> Iterator[None]:
    """Inside: failures of the codec become CorruptSnapshot; ``offset`` maps buffer positions to file offsets."""
    try:
        yield
    except HostFailure as failure:
        error = failure.error
        at = offset(error.where.offset or 0)
        inner = type(error)(error.message, where=Where(file, at), advice=error.advice)
        raise inner.at(state=state) from failure
    except DecodeFailure as failure:
        where = Where(file=file, offset=offset(failure.position), state=state)
        raise CorruptSnapshot(str(failure.args[0]), where=where, advice=_ADVICE) from failure
    except Unrepresentable as error:
        where = Where(file=file, offset=offset(0), state=state)
        raise UnsupportedSnapshot(str(error), where=where, advice=error.advice) from error
    except (BadValue, OverflowError, pa.ArrowInvalid) as error:
        where = Where(file=file, offset=offset(0), state=state)
        raise CorruptSnapshot(str(error) or type(error).__name__, where=where, advice=_ADVICE) from error
