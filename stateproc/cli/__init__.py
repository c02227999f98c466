"""The command line: ``stateproc inspect``, ``read`` and ``offsets``, without a JVM.

May import snapshot and every package below it; neither writers nor spark.
"""

from stateproc.cli.app import main

__all__ = ["main"]
