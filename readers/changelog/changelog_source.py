"""What is needed to open the changelog of one subtask."""

from __future__ import annotations

from dataclasses import dataclass, field

from stateproc.metadata.handles import ChangelogHandle, KeyedHandle
from stateproc.serializers import Serializer
from stateproc.storage import SnapshotLocation


@dataclass(frozen=True)
class ChangelogSource:
    """A changelog handle and where to find its files and the type of its keys. Picklable.

    Attributes:
        handle: The handle in ``_metadata``.
        location: The snapshot.
        key_handles: Materialized handles of the operator's other subtasks, whose keys have the same serializer.
        key_type: The key's serializer as the user specifies it, used only where nothing else specifies it.
    """

    handle: ChangelogHandle = field(repr=False)
    location: SnapshotLocation
    key_handles: tuple[KeyedHandle, ...] = field(default=(), repr=False)
    key_type: Serializer | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Return how error messages name the changelog."""
        return f"{self.location.metadata_uri} (changelog {self.handle.handle_id})"
