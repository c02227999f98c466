"""The bytes of batches come from the pool that keeps the least of what is freed, unless the user chooses."""

from __future__ import annotations

import subprocess
import sys

import pytest

_MEGABYTE = 1 << 20
_SCRIPT = f"""
import pyarrow as pa
from stateproc.codec.arrow_arrays import uninitialized_bytes
pools = {{name: getattr(pa, name + "_memory_pool")() for name in pa.supported_memory_backends()}}
held = uninitialized_bytes({_MEGABYTE})
assert held.nbytes == {_MEGABYTE} and held.flags.writeable
(found,) = [name for name, pool in pools.items() if pool.bytes_allocated() >= {_MEGABYTE}]
del held
assert not any(pool.bytes_allocated() for pool in pools.values())
print(found, pa.default_memory_pool().backend_name, *pools)
"""


@pytest.mark.processes
@pytest.mark.parametrize("chosen", [None, "mimalloc", "jemalloc", "system"])
def test_bytes_of_batches_are_jemallocs_unless_the_user_chose(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    if chosen is not None:
        monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", chosen)
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    found, default, *supported = done.stdout.split()
    assert found == ("jemalloc" if chosen is None and "jemalloc" in supported else default)
    # Arrow takes its own default where it does not have what was chosen.
    assert chosen is None or chosen not in supported or default == chosen
