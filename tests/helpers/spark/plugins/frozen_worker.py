"""A plugin of the data source, for tests: what a Python worker of Spark has looked through once stays out of its sight.

A worker collects garbage after each call, and nearly all that the collector walks are modules and kernels: with
thousands of calls of a few milliseconds each, most of the time goes there. Plugins are loaded in every worker that
plans or reads.
"""

from __future__ import annotations

import gc
from typing import Any

OLDEST = 2


def _freeze(phase: str, told: dict[str, Any]) -> None:
    if phase == "stop" and told["generation"] == OLDEST:
        gc.freeze()


gc.callbacks.append(_freeze)
