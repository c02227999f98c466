"""Import the user's modules that register snapshot readers."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from stateproc.errors import InvalidOption


def load_plugins(names: Iterable[str]) -> None:
    """Import each module; raises InvalidOption if one cannot be imported."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InvalidOption(
                f"plugin module {name!r} cannot be imported: {error}",
                advice="it must be on the Python path of the driver and of every executor (spark.submit.pyFiles)",
            ) from error
