"""Split long sweeps, so that `make test-fast` runs a part of each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest

_PARAM = type(pytest.param())


def sweep(n: int) -> list[Any]:
    """Return the numbers below `n` as two ranges for `parametrize`; only `make test` runs the second, longer one."""
    fast = -(-n // 16)
    return [range(fast), exhaustive(range(fast, n))]


def exhaustive(*values: Any) -> Any:
    """Return a case for `parametrize` that only `make test` runs, because others of the same kind are cheaper."""
    return pytest.param(*values, marks=pytest.mark.exhaustive)


def sampled(*values: Any) -> Any:
    """Return a case for `parametrize` whose kind another case of `make test-fast` shows."""
    return pytest.param(*values, marks=pytest.mark.sampled)


def sample(cases: Iterable[Any], kinds: Callable[..., Iterable[Hashable]]) -> list[Any]:
    """Return cases for `parametrize`, all but the first of each kind marked `sampled`.

    Args:
        cases: The cases in order; each is a `pytest.param`, a tuple of values, or a value.
        kinds: Returns what a case of these values shows. `make test-fast` runs it if no case before shows one of them.
    """
    shown: set[Hashable] = set()
    found = []
    for case in cases:
        if not isinstance(case, _PARAM):
            case = pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)
        if any(mark.name == "exhaustive" for mark in case.marks):
            found.append(case)
            continue
        own = set(kinds(*case.values))
        found.append(case._replace(marks=(*case.marks, pytest.mark.sampled)) if own <= shown else case)
        shown |= own
    return found
