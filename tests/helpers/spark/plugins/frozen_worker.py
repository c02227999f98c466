"""Data source plugin for tests: freeze objects that survive a full garbage collection of a Python worker.

A worker collects garbage after each call, and nearly all objects that the collector traverses are modules and
kernels: with thousands of calls of a few milliseconds each, this dominates the run time. Plugins are loaded in every
worker that plans or reads.
"""

from __future__ import annotations

import gc
from typing import Any

OLDEST = 2


def _freeze(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == OLDEST:
        gc.freeze()


gc.callbacks.append(_freeze)
