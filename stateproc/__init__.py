"""Read and write Apache Flink savepoints and checkpoints without Flink.

``stateproc.open(path)`` returns a snapshot whose states are Arrow tables; ``stateproc.attach(spark, path)`` creates SQL
views of all its states; ``stateproc.SavepointWriter`` writes savepoints, whose operators are built with
``stateproc.OperatorBootstrap``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stateproc import errors as errors

__version__ = "0.1.0"


def _public_names() -> dict[str, str]:
    """Return name → module of each line ``from module import name as name`` of the stub that type checkers read."""
    stub = __spec__.loader.get_data(__file__.rpartition(".")[0] + ".pyi").decode()
    lines = [line.split() for line in stub.splitlines()]
    return {words[-1]: words[1] for words in lines if words[:1] == ["from"]}


_MODULES = _public_names()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    # Lazy: start-up. Spark imports this package in every planning process, the command line for ``--help``.
    if name not in _MODULES:
        raise AttributeError(f"module 'stateproc' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
