"""Split long sweeps over random cases, so that `make test-fast` runs a part of each."""

from __future__ import annotations

from typing import Any

import pytest


def sweep(n: int) -> list[Any]:
    """Return the numbers below `n` as two ranges for `parametrize`; only `make test` runs the second, longer one."""
    fast = -(-n // 8)
    return [range(fast), exhaustive(range(fast, n))]


def exhaustive(*values: Any) -> Any:
    """Return a case for `parametrize` that only `make test` runs, because others of the same kind are cheaper."""
    return pytest.param(*values, marks=pytest.mark.exhaustive)
