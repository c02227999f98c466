"""Change where a source of an existing snapshot continues, in the words of its connector.

What a reader has is in its splits, what no reader has yet in the enumerator's state; some enumerators keep a copy of
all. Each connector says how a decoded split or enumerator continues elsewhere (`ConnectorFormat.moved`). Serializer
versions stay those that are found, and splits that do not change keep their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stateproc.connectors.cdc import names_old_classes
from stateproc.connectors.connector_format import (
    ConnectorFormat,
    FormatRow,
    Position,
    Versioned,
    coordinator_of,
    written_version,
)
from stateproc.connectors.operator_states import (
    SOURCE_STATE,
    SourceCoordinator,
    decoded_elements,
    enumerator_format,
    source_coordinator,
)
from stateproc.errors import CorruptSnapshot, InvalidOption, UnsupportedSnapshot, Where, located, not_found
from stateproc.metadata.stream_handles import ByteStreamHandle
from stateproc.model.operator import Operator
from stateproc.wire import Cursor, Output
from stateproc.writers.rewrite.operator_state_copy import GivenElements, given_elements, raw_elements

Positions = Mapping[str, str]
"""Split → where it continues. A split may be a pattern: ``*`` is any text."""


@dataclass(frozen=True)
class ReaderElement:
    """A split of a reader: its subtask, what was decoded, and its bytes in the snapshot, None for a changed one."""

    subtask: int
    version: int
    row: FormatRow
    stored: bytes | None


@dataclass(frozen=True)
class Enumerator:
    """The enumerator's state, and what the coordinator has around it. ``is_changed``: it is not as in the snapshot."""

    format: ConnectorFormat
    row: FormatRow
    coordinator: SourceCoordinator
    name: str
    is_changed: bool = False


@dataclass(frozen=True)
class SourceSplits:
    """The splits of a source.

    Attributes:
        format: That of the readers' splits; None if no reader has one.
        splits: The splits of the readers, in the order of the snapshot.
        enumerator: What the enumerator keeps of splits; None: nothing that is set there.
        reasons: What changes, for plans.
    """

    format: ConnectorFormat | None
    splits: tuple[ReaderElement, ...]
    enumerator: Enumerator | None
    reasons: tuple[str, ...] = ()

    state_name = SOURCE_STATE

    @property
    def positions(self) -> dict[str, str | None]:
        """Where each split continues that readers have, or that the enumerator has not assigned."""
        return dict(self._all())

    @property
    def known(self) -> tuple[str, ...]:
        """The splits whose positions can be set."""
        return tuple(self.positions)

    def cautions(self, names: Collection[str]) -> Iterator[str]:
        """Yield what to know of splits whose positions were set."""
        for item in self.splits:
            for name in self._names(item):
                if self.format is not None and name in names:
                    yield from (f"{name} {caution}" for caution in self.format.cautions(item.row))

    def changed(self, edits: Sequence[Positions], operator: str) -> SourceSplits:
        """Return the source after all edits. Raises NotFound, InvalidOption."""
        found = self
        for edit in edits:
            wanted = _wanted(edit, found.known, operator)
            with located(InvalidOption, operator=operator, state=SOURCE_STATE):
                found = found._moved(wanted)
        return replace(found, reasons=(*found.reasons, "new positions")) if edits else found

    def renamed(self, operator: str) -> SourceSplits:
        """Return the source with the names that classes have in newer releases of its connector.

        Raises UnsupportedSnapshot for a class that is not known.
        """
        rename = None if self.format is None else self.format.renamed
        if rename is None:
            return self
        with located(UnsupportedSnapshot, operator=operator, state=SOURCE_STATE):
            splits = [(item, rename(item.row)) for item in self.splits]
        changed = (item if row == item.row else replace(item, row=row, stored=None) for item, row in splits)
        return replace(self, splits=tuple(changed), reasons=(*self.reasons, "classes of Flink CDC 3.1 and later"))

    def elements(self) -> list[GivenElements]:
        """The elements of the readers' state, by subtask."""
        return given_elements((item.subtask, self._element(item)) for item in self.splits)

    def coordinator(self) -> ByteStreamHandle | None:
        """The coordinator's state; None: it stays."""
        own = self.enumerator
        if own is None or not own.is_changed:
            return None
        around = own.coordinator
        enumerator = own.format.write(around.enumerator.version, own.row)
        data = coordinator_of(around.serde_version, enumerator.version, enumerator.payload, around.assignments)
        return ByteStreamHandle(own.name, data)

    def _element(self, item: ReaderElement) -> bytes:
        if item.stored is not None:
            return item.stored
        assert self.format is not None
        return written_element(self.format.write(item.version, item.row))

    def _all(self) -> Iterator[tuple[str, str | None]]:
        held = set()
        for item in self.splits:
            for at in self._positions(item):
                held.add(at.split)
                yield at.split, at.position
        own = self.enumerator
        for at in () if own is None or own.format.positions is None else own.format.positions(own.row):
            if at.split not in held and not at.assigned and at.position is not None:
                yield at.split, at.position

    def _positions(self, item: ReaderElement) -> Iterable[Position]:
        return () if self.format is None or self.format.positions is None else self.format.positions(item.row)

    def _names(self, item: ReaderElement) -> list[str]:
        return [at.split for at in self._positions(item)]

    def _moved(self, wanted: Mapping[str, str]) -> SourceSplits:
        splits = []
        for item in self.splits:
            own = {name: wanted[name] for name in self._names(item) if name in wanted}
            if own and self.format is not None and self.format.moved is not None:
                row = self.format.moved(item.row, own)
                item = item if row == item.row else replace(item, row=row, stored=None)
            splits.append(item)
        enumerator = self.enumerator
        if enumerator is not None and enumerator.format.moved is not None:
            row = enumerator.format.moved(enumerator.row, wanted)
            if row != enumerator.row:
                enumerator = replace(enumerator, row=row, is_changed=True)
        return replace(self, splits=tuple(splits), enumerator=enumerator)


def _wanted(edit: Positions, known: Sequence[str], operator: str) -> dict[str, str]:
    """Return the position of each split that is named, by name or by pattern. Raises NotFound, InvalidOption."""
    held = frozenset(known)
    named = {name: text for name, text in edit.items() if name in held}
    matched: dict[str, str] = {}
    for pattern in edit.keys() - named.keys():
        expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
        found = [name for name in known if expression.fullmatch(name)]
        if not found:
            raise not_found("split", pattern, known, f"operator '{operator}'")
        for name in found:
            if matched.setdefault(name, edit[pattern]) != edit[pattern] and name not in named:
                raise InvalidOption(
                    f"several patterns give {name} another position", advice="give it a position by its name"
                )
    return {**matched, **named}


def source_splits(operator: Operator) -> SourceSplits:
    """Read the splits of a source.

    Raises:
        InvalidOption: The operator is no source whose positions can be set.
        UnsupportedSnapshot: Its coordinator has assignments that readers do not have yet (Flink 1.13 and earlier).
        CorruptSnapshot, MissingFile: Its state cannot be read.
    """
    if not _has_splits(operator):
        raise _no_source(operator, "no state of a source with splits")
    elements = list(reader_elements(operator))
    decoded = decoded_elements(SOURCE_STATE, [value for _, _, value in elements])
    if elements and decoded is None:
        raise _no_source(operator, "splits of a connector that is not known")
    of = None if decoded is None else decoded.format
    if of is not None and of.moved is None:
        raise _no_source(operator, f"splits of {of.name}, whose positions cannot be set")
    splits = tuple(
        ReaderElement(subtask, int.from_bytes(value[:4], "big"), row, stored)
        for (subtask, stored, value), row in zip(elements, [] if decoded is None else decoded.rows, strict=True)
        if row is not None
    )
    return SourceSplits(of, splits, _enumerator(operator, None if of is None else of.name))


def reader_elements(operator: Operator) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the subtask of each split, its element as it is stored, and the bytes in that.

    Raises CorruptSnapshot, MissingFile.
    """
    for part in raw_elements(operator, SOURCE_STATE):
        for batch in part.read():
            for value in batch.to_arrow():
                stored = value.as_py()
                cursor = Cursor(stored)
                with located(CorruptSnapshot, operator=operator.display, state=SOURCE_STATE):
                    data = bytes(cursor.bytes32())
                    cursor.finish("an element of the readers' state")
                yield part.subtask, stored, data


def has_old_classes(operator: Operator) -> bool:
    """Return whether splits name classes of Flink CDC before 3.1. Raises CorruptSnapshot, MissingFile."""
    if operator.unreadable_operator_files or not _has_splits(operator):
        return False
    return names_old_classes(data for _, _, data in reader_elements(operator))


def _has_splits(operator: Operator) -> bool:
    """Return whether an operator is a source with splits: users' own states may have the name of theirs, too."""
    states = (state for state in operator.operator_states if state.name == SOURCE_STATE)
    return any(state.value_type == "byte[]" and state.distribution == "split" for state in states)


def written_element(item: Versioned) -> bytes:
    """Encode an element of the readers' state: byte[] as BytePrimitiveArraySerializer writes it."""
    out = Output()
    out.bytes32(written_version(item.version, item.payload))
    return bytes(out)


def refuse_assignments(assignments: bytes, operator: Operator) -> None:
    """Raise UnsupportedSnapshot for a coordinator's splits that readers do not have yet (Flink 1.13 and earlier)."""
    if any(assignments[:4]):
        raise UnsupportedSnapshot(
            "the source's coordinator has assigned splits that its readers had not received at the checkpoint",
            where=Where(operator=operator.display),
            advice="take another savepoint or checkpoint of the job, and change that",
        )


def _enumerator(operator: Operator, connector: str | None) -> Enumerator | None:
    handle = operator.metadata.coordinator
    found = None if handle is None else source_coordinator(handle.data)
    if handle is None or found is None:
        return None
    refuse_assignments(found.assignments, operator)
    known = enumerator_format(found.enumerator, connector)
    if known is None or known[0].moved is None:
        return None
    return Enumerator(*known, found, handle.name)


def _no_source(operator: Operator, what: str) -> InvalidOption:
    return InvalidOption(
        f"operator {operator.display} has {what}",
        where=Where(operator=operator.display),
        advice="stateproc offsets PATH lists the sources of a snapshot with their splits",
    )
