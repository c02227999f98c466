"""Check and tune the Python workers that Spark starts."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

from stateproc.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAEMON = "pyspark.daemon"
_kept = False


def keep_loaded() -> None:
    """Exclude all objects that are loaded by now from garbage collection, once, in a Spark worker that is reused.

    Workers collect garbage after each task. Modules, types and kernels are several hundred thousand objects that never
    become garbage; visiting them took 50 ms each time, as long as decoding half a million rows. Cycles that are
    garbage at the moment of the call stay; those of later tasks do not. In any other process nothing happens.
    """
    # gc.get_freeze_count would count all excluded objects each time.
    global _kept
    if not _kept and _main_module() == _DAEMON:
        _kept = True
        gc.freeze()


def _main_module() -> str:
    """Return the module that this process was started with by ``python -m``."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "" if spec is None else str(spec.name)


_PROBE = "import sys, stateproc, pyspark_savepoint; print(*sys.version_info[:2], sep='.')"
_DEFAULT_PYTHON = "python3"


def check_worker_python(spark: SparkSession) -> None:
    """Check that the interpreters which Spark starts on this machine can import this package.

    Spark plans Python data sources in a worker of its own, which it starts as the session's PYSPARK_PYTHON (default
    ``python3``), not as the interpreter that runs the driver program. Sessions of Spark Connect and interpreters that
    are not on this machine are not checked.

    Raises:
        InvalidOption: An interpreter cannot import stateproc, or has another minor version than the driver.
    """
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has none; which error it raises depends on the release
        return
    lookup = os.environ.get("PYSPARK_DRIVER_PYTHON", os.environ.get("PYSPARK_PYTHON", _DEFAULT_PYTHON))
    for name in dict.fromkeys((context.pythonExec, lookup)):
        path = shutil.which(name)
        problem = None if path is None or path == sys.executable else _probe(path)
        if problem is not None:
            raise InvalidOption(
                f"Spark's Python workers run {path}, which {problem}",
                advice=f"set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to {sys.executable} before the Spark session "
                "starts, or activate the virtual environment",
            )


@cache
def _probe(path: str) -> str | None:
    """Return why the interpreter at ``path`` cannot serve as a worker; None if it can."""
    result = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        last = result.stderr.strip().rpartition("\n")[2]
        return f"cannot import stateproc ({last})"
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return None if result.stdout.strip() == version else f"is Python {result.stdout.strip()}, the driver {version}"
