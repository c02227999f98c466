"""Find the operators and states of a snapshot by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from stateproc.errors import InvalidOption, NotFound, not_found
from stateproc.keygroups.operator_ids import matching_operator_id, operator_id
from stateproc.metadata import OperatorEntry, SnapshotMetadata, file_bytes, flink_version_range, snapshot_kind
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.operator_names.given_names import FILE_MARK, GivenNames, SnapshotNames, given_names
from stateproc.readers.read_options import ReadOptions
from stateproc.storage import SnapshotLocation

if TYPE_CHECKING:
    from stateproc.query_plans import QueryNames


class SnapshotContents:
    """The operators and states of a savepoint or checkpoint, without what `stateproc.Snapshot` does with them.

    Attributes:
        location: The snapshot's directory and the options of its file system.
        metadata: The contents of ``_metadata``.
        options: How states are decoded.
    """

    def __init__(
        self,
        location: SnapshotLocation,
        metadata: SnapshotMetadata,
        options: ReadOptions,
        uids: Iterable[str],
        query: QueryNames | None = None,
    ) -> None:
        self.location = location
        self.metadata = metadata
        self.options = options
        self._row_names = {} if query is None else query.operators
        self._names = SnapshotNames(metadata.operators, _given_names(uids, location, query))
        self._names.warn_of_unmatched()
        self._operators_by_uid: dict[str, Operator] = {}

    @property
    def path(self) -> str:
        """The snapshot's directory."""
        return self.location.directory_uri

    @property
    def note(self) -> str | None:
        """What was chosen where the path allows several snapshots, e.g. the newest checkpoint of a job; else None."""
        return self.location.note

    @property
    def flink_versions(self) -> str:
        """The Flink releases that write such a ``_metadata``, e.g. "1.16 – 1.20"."""
        return flink_version_range(self.metadata)

    @cached_property
    def kind(self) -> str:
        """canonical savepoint, native savepoint, checkpoint, or savepoint or checkpoint; no state file is read."""
        return snapshot_kind(self.metadata)

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """All operators, in the order of ``_metadata``."""
        return tuple(self._operator(item, self._names.given_uid(item.operator_id)) for item in self.metadata.operators)

    def operator(self, uid_or_hash: str) -> Operator:
        """Find an operator.

        Args:
            uid_or_hash: Its uid, its uid hash (operator id, 32 hex digits) or the beginning of it (at least 4 digits),
                or its name if only one operator has it.

        Returns:
            The operator. Where ``_metadata`` contains no uids (Flink 1.x) and a uid was given, it has that uid.

        Raises:
            NotFound: No operator matches; the advice lists the nearest.
            InvalidOption: The hashes of several operators begin with these digits; the advice lists them.
        """
        wanted = uid_or_hash.lower()
        hashed = operator_id(uid_or_hash)
        for operator in self.operators:
            if operator.operator_id in (wanted, hashed) or operator.known_uid == uid_or_hash:
                named = operator.known_uid is None and operator.operator_id == hashed
                return self._named(operator, uid_or_hash) if named else operator
        by_name = [operator for operator in self.operators if operator.name == uid_or_hash]
        if len(by_name) == 1:
            return by_name[0]
        by_prefix = matching_operator_id(uid_or_hash, (operator.operator_id for operator in self.operators))
        if by_prefix is not None:
            return next(operator for operator in self.operators if operator.operator_id == by_prefix)
        known = [operator.display for operator in self.operators] + [
            operator.name for operator in self.operators if operator.name
        ]
        error = not_found("operator with uid, uid hash or name", uid_or_hash, known)
        if self.operators and all(operator.display == operator.operator_id for operator in self.operators):
            hashes = "Flink 1.x writes hashes of uids, so name the uid exactly as the job does, or the hash"
            raise NotFound(error.message, advice=f"{hashes}; {error.advice}")
        raise error

    def _operator(self, metadata: OperatorEntry, uid: str | None) -> Operator:
        rows = self._row_names.get(metadata.operator_id)
        return Operator(metadata, self.location, self.options, self.metadata.version, uid, self._names, rows)

    def _named(self, operator: Operator, uid: str) -> Operator:
        """Return ``operator`` under ``uid``: always the same object, so that its headers are read once."""
        if uid not in self._operators_by_uid:
            self._operators_by_uid[uid] = self._operator(operator.metadata, uid)
        return self._operators_by_uid[uid]

    def state(self, uid_or_hash: str, name: str, *, raw: bool = False) -> State:
        """Find a state.

        Args:
            uid_or_hash: The operator, as in :meth:`operator`.
            name: The state's name.
            raw: Source and sink states of well-known connectors as their bytes, not decoded into columns.

        Raises:
            NotFound: There is no such operator or state; the advice lists the nearest names.
        """
        return self.operator(uid_or_hash).state(name, raw=raw)

    def __getitem__(self, uid_or_hash: str) -> Operator:
        """Return an operator, as :meth:`operator` finds it. Raises NotFound."""
        return self.operator(uid_or_hash)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, uid_or_hash: object) -> bool:
        try:
            return isinstance(uid_or_hash, str) and bool(self.operator(uid_or_hash).operator_id)
        except (NotFound, InvalidOption):
            return False

    def keys(self) -> list[str]:
        """Return the operators' uids, or their ids where uids are not known."""
        return [operator.display for operator in self.operators]

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    @property
    def states(self) -> Sequence[State]:
        """All states of all operators. Reads the headers of state files."""
        return [state for operator in self.operators for state in operator.states]

    @property
    def file_bytes(self) -> int:
        """The bytes of all files and of the state in ``_metadata``; shared files count once."""
        return file_bytes(self.metadata)

    def __repr__(self) -> str:
        n = len(self.operators)
        counted = f"{n} operator{'' if n == 1 else 's'}"
        return f"<{self.kind} {self.path!r} of Flink {self.flink_versions}: {counted}>"


def _given_names(uids: Iterable[str], location: SnapshotLocation, query: QueryNames | None) -> GivenNames:
    """Return the uids that the user gives, and those of a compiled plan."""
    planned = () if query is None else query.uids.values()
    given = (*uids, *(uid for uid in planned if not uid.startswith(FILE_MARK)))
    if not given:
        return GivenNames()
    return given_names(given, location.directory.options)
