"""Split long sweeps over random cases, so that `make test-fast` runs a part of each."""

from __future__ import annotations

from typing import Any

import pytest


def sweep(n: int) -> list[Any]:
    """Return the numbers below `n` as two ranges for `parametrize`; only `make test` runs the second, longer one."""
    fast = -(-n // 4)
    return [range(fast), pytest.param(range(fast, n), marks=pytest.mark.exhaustive)]
