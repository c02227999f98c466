"""What verification of a written file knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext
from stateproc.storage import SnapshotLocation


def written_file(
    location: SnapshotLocation,
    states: Sequence[StateDescriptor | str],
    *,
    max_parallelism: int = 128,
    context: LayoutContext | None = None,
    compressed: bool = False,
) -> Any:
    """Return the parts of a KeyedFileSpec that verification reads."""
    names = tuple(state if isinstance(state, str) else state.name for state in states)
    return SimpleNamespace(
        location=location,
        header=SimpleNamespace(names=names),
        states=states,
        max_parallelism=max_parallelism,
        context=context or LayoutContext(),
        compressed=compressed,
    )
