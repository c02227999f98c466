"""What Spark's Python workers keep between tasks."""

from __future__ import annotations

import gc
import sys

_DAEMON = "pyspark.daemon"
_kept = False


def keep_loaded() -> None:
    """In a worker of Spark's that lives on: leave what is loaded by now out of garbage collections. Elsewhere: nothing.

    Workers collect after each task. Modules, types and kernels are several hundred thousand objects that never become
    garbage; going through them took 50 ms each time, as long as decoding half a million rows. Once in a process:
    cycles that are garbage at that moment stay, those of later tasks do not.
    """
    # Not asked of gc, which would count all it leaves out.
    global _kept
    if not _kept and _main_module() == _DAEMON:
        _kept = True
        gc.freeze()


def _main_module() -> str:
    """The name of the module that this process was started with, as ``python -m`` was told it."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "" if spec is None else str(spec.name)
