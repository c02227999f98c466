"""The changelog of one subtask: its header, splits and comparison with another one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.metadata.backend import KeyedHeader, StateMetaInfo
from stateproc.metadata.keyed_handles import ChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.readers.changelog.changed_entries import ChangelogPairScan, changelog_pair_scan
from stateproc.readers.changelog.changelog_split import ChangelogSplit
from stateproc.readers.changelog.log_metadata import ChangelogSource, changelog_header, declared_states
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.materialized_files import open_materialized_file
from stateproc.readers.splits import KeyedSplit, SplitRequest, StateScan
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import Serializer


@dataclass(frozen=True)
class ChangelogFile(KeyedFile):
    """A changelog: materialized handles and the log of changes since.

    Attributes:
        key_handles: Materialized handles of other subtasks, whose headers contain the key's serializer.
        key_type: The key's serializer as the user specifies it, for changelogs that do not contain it.
    """

    reads_whole_files = True
    handle: ChangelogHandle
    key_handles: tuple[KeyedHandle, ...] = ()
    key_type: Serializer | None = None
    layout = "changelog"

    @property
    def changelog(self) -> ChangelogSource:
        """Return what is needed to open the changelog."""
        return ChangelogSource(self.handle, self.location, self.key_handles, self.key_type, self.cache)

    @property
    def databases(self) -> tuple[IncrementalHandle, ...]:
        return tuple(handle for handle in self.handle.materialized if isinstance(handle, IncrementalHandle))

    def read_header(self) -> KeyedHeader | None:
        return changelog_header(self.changelog)

    def logged_states(self) -> tuple[StateMetaInfo, ...]:
        """Return the states that the log alone declares, without the key's serializer, which it does not contain."""
        return tuple(declared_states(self.changelog))

    def plan_splits(self, request: SplitRequest) -> list[KeyedSplit]:
        """Divide the key groups into splits of about the requested stored bytes, counting those of all states."""
        size, groups, changelog = self.data_bytes, list(self.handle.key_groups), self.changelog
        parts = min(max(1, -(-size // max(request.split_bytes, 1))), max(len(groups), 1))
        bounds = [len(groups) * index // parts for index in range(parts + 1)]
        runs = [tuple(filter(request.includes, groups[start:stop])) for start, stop in pairwise(bounds)]
        return [ChangelogSplit(request.scan, changelog, run, size * len(run) // len(groups)) for run in runs if run]

    def split(self, scan: StateScan, key_groups: Collection[int]) -> ChangelogSplit:
        return ChangelogSplit(scan, self.changelog, tuple(key_groups), self.data_bytes)

    def pair_scan(self, other: KeyedFile, scan: StateScan) -> ChangelogPairScan | None:
        if not isinstance(other, ChangelogFile) or self.max_parallelism != other.max_parallelism:
            return None
        return changelog_pair_scan(self.changelog, other.changelog, scan)

    def stores_lengths(self, state: StateDescriptor) -> bool:
        """Lists and maps are logged as a count and their items, which have no lengths."""
        if state.kind in (StateKind.LIST, StateKind.MAP):
            return False
        parts = (open_materialized_file(handle, self.location) for handle in self.handle.materialized)
        return all(part.stores_lengths(state) for part in parts)


@dataclass(frozen=True)
class DetachedSegments(KeyedFile):
    """Segments of a changelog without the changelog handle that they belong to. They cannot be read."""

    layout = "changelog"
    data_bytes = 0

    def read_header(self) -> None:
        return None

    def check_readable(self, operator: str, state: str) -> None:
        raise self._problem(operator, state)

    def plan_splits(self, request: SplitRequest) -> list[KeyedSplit]:
        raise self._problem(request.scan.operator, request.scan.state)

    def split(self, scan: StateScan, key_groups: Collection[int]) -> KeyedSplit:
        raise self._problem(scan.operator, scan.state)

    def _problem(self, operator: str, state: str) -> UnsupportedSnapshot:
        return UnsupportedSnapshot(
            "there are segments of a changelog without the changelog handle that they belong to",
            where=Where(file=self.location.metadata_uri, operator=operator, state=state),
            advice="Flink writes them inside of changelog handles only; take the snapshot again or use a copy",
        )
