"""The command line: ``stateproc inspect``, ``read``, ``offsets``; on the Arrow core, without a JVM."""

from stateproc.cli.app import main

__all__ = ["main"]
