"""Find handles whose headers contain the key's serializer, for changelogs that do not contain it themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stateproc.metadata.handles import ChangelogHandle, IncrementalHandle, KeyedHandle


def key_handles_of(handles: Iterable[KeyedHandle | None]) -> tuple[KeyedHandle, ...]:
    """Return the first materialized handle among the changelogs of an operator's subtasks, () if there is none.

    A database's files are left out: only its header is read, and the handle is pickled with every split.
    """
    changelogs = (handle for handle in handles if isinstance(handle, ChangelogHandle))
    first = next((handle.materialized[0] for handle in changelogs if handle.materialized), None)
    if first is None:
        return ()
    return (replace(first, shared=(), private=()) if isinstance(first, IncrementalHandle) else first,)
