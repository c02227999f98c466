"""Which allocator Arrow uses while a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CHOSEN = "ARROW_DEFAULT_MEMORY_POOL"
"""The environment variable by which users choose."""
_ALLOCATOR = "jemalloc"


@contextmanager
def returned_memory() -> Iterator[None]:
    """Let Arrow, if it is loaded, allocate by jemalloc where it has that.

    Its default, mimalloc, keeps 15 to 60 MB more of what two threads no longer need, for 5 million keys and for 100
    million; malloc keeps up to 100 MB more where a thread frees what another one has allocated.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or _CHOSEN in os.environ or _ALLOCATOR not in pyarrow.supported_memory_backends():
        yield
        return
    before = pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(pyarrow.jemalloc_memory_pool())
    try:
        yield
    finally:
        pyarrow.set_memory_pool(before)
