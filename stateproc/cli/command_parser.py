"""Parse the arguments of one command."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any


class CommandParser(ArgumentParser):
    """A parser that accepts options anywhere, also between positional arguments of which the last may be left out.

    argparse takes an optional positional argument for left out where an option precedes it. It has a way of parsing
    that does not, but not for the parsers of commands.
    """

    _is_intermixed = False

    def parse_known_args(  # type: ignore[override]  # the signature is overloaded
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Any, list[str]]:
        """Parse as ``parse_known_intermixed_args``, which calls this method for its two passes.

        argcomplete, which completes an unfinished line, needs one pass: a snapshot's names are completed from its path.
        """
        if self._is_intermixed or "_ARGCOMPLETE" in os.environ:
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False
