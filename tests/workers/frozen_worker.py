"""A plugin of the data source, for tests: what a Python worker of Spark has imported is not looked through again.

A worker collects garbage after each call, and nearly all that the collector walks are modules: with thousands of calls
of a few milliseconds each, most of the time goes there. Plugins are loaded in every worker that plans or reads.
"""

from __future__ import annotations

import gc

import numba  # noqa: F401  # most of the modules; imported later otherwise

gc.freeze()
