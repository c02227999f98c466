"""No kernel reads or writes outside of its buffers, and the compiled kernels do what plain Python does."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.errors import SnapshotError
from tests.helpers.damage.checked_kernels import checked_kernels
from tests.helpers.damage.corpus import Target, file_targets
from tests.helpers.damage.mutations import mutated

_FILES = [target for target in file_targets() if len(target.data) < 12_000]


def _seen(target: Target, data: bytes) -> dict[str, Any]:
    """Rows, and errors as their texts."""
    rows = target.read(data)
    return {name: str(item) if isinstance(item, SnapshotError) else item for name, item in rows.items()}


@pytest.mark.parametrize("target", _FILES, ids=lambda target: target.name)
def test_plain_python_over_checked_memory_reads_the_same(target: Target) -> None:
    for seed in range(3):
        data = target.data if seed == 0 else mutated(seed, target.data, first=target.body if seed % 2 else 0)
        compiled = _seen(target, data)
        with checked_kernels() as memory:
            before = memory.touched
            plain = _seen(target, data)
        assert repr(plain) == repr(compiled), f"seed {seed}"
        assert memory.touched > before or not any(isinstance(rows, list) and rows for rows in plain.values())
