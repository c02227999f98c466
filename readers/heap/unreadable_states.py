"""Find states of a native heap file that cannot be read, before any split of it is.

Without the class of a value, where the value ends is unknown, and with it where the states begin that are stored after
it in the same key group: an uncompressed file hides them. Classes that the header does not describe show only in the
data, so the beginning of the file is walked, though only where a state may contain such values; all of it if the caller
must know every such state beforehand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from stateproc.codec.array_types import Bytes
from stateproc.codec.machine import DecodeFailure, HostFailure, Machine
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot, Where
from stateproc.html.units import counted
from stateproc.readers.entry_programs import skip_program
from stateproc.readers.key_group_blocks import KeyGroupRange, decompress_frames, frames
from stateproc.readers.keyed_file import ErrorsByKeyGroup
from stateproc.readers.splits import split_ranges
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.storage import ByteSource
from stateproc.storage.ranges import reading_ahead

PROBE_BYTES = 1 << 20
"""Bytes of a file that are walked: unknown classes mostly show in its first key groups."""
GROUP_HEAD = 4
"""Bytes of a key group's number."""
SECTION = struct.Struct(">Hi")
"""What begins the entries of a state in a key group: the state's id, the number of entries."""


_NO_END = "whose values have no known end: "


class HiddenState(UnsupportedSnapshot):
    """A state is stored after values without known end, so that it cannot be found."""

    @property
    def reason(self) -> str:
        """Why the values before it have no known end."""
        return self.message.partition(_NO_END)[2]


def hidden_state_error(
    state: str, hiding: str, entries: int, key_group: int, reason: SnapshotError, where: Where
) -> HiddenState:
    """Return the error for a state that is stored after values without known end."""
    before = counted(entries, "entry", "entries")
    return HiddenState(
        f"state '{state}' cannot be found: it is stored after {before} of state '{hiding}' in key group "
        f"{key_group}, {_NO_END}{reason.message}",
        where=where,
        advice=reason.advice or "take a canonical savepoint instead: there every entry has its length",
    )


def unreadable_states(
    source: ByteSource,
    ranges: Sequence[KeyGroupRange],
    states: Sequence[StateDescriptor | str],
    ctx: LayoutContext,
    *,
    compressed: bool,
    whole: bool = False,
    probe_bytes: int = PROBE_BYTES,
) -> Mapping[str, ErrorsByKeyGroup]:
    """Walk the beginning of the file, or all of it, and report the states that cannot be read.

    Args:
        states: All states of the header by id; the name only of one that is no keyed state.
        ctx: Settings of layouts, with the classes that the user describes.
        compressed: Whether the key groups are compressed; then no state hides another.
        whole: Whether the whole file is walked.
        probe_bytes: How much of the file to read at once; without ``whole``, to read at all.

    Returns:
        Of each unreadable state, the error by key group. Damage is not reported; reading reports it.

    Raises:
        MissingFile: The file does not exist.
    """
    skippers = [_skipper(state, ctx) for state in states]
    if not ranges or _all_end(skippers):
        return {}
    probe = _Probe(source.name, states, skippers, compressed)
    # Damage ends the walk; reading reports it.
    with suppress(CorruptSnapshot):
        for item, raw in _read_groups(source, ranges, probe_bytes, whole):
            probe.walk(raw, item)
    return probe.errors


def have_known_ends(states: Sequence[StateDescriptor | str], ctx: LayoutContext) -> bool:
    """Return whether the types of all states say where values end, so that nothing has to be read to find out."""
    return _all_end([_skipper(state, ctx) for state in states])


def _all_end(skippers: Sequence[Machine | SnapshotError]) -> bool:
    return not any(isinstance(item, SnapshotError) or item.program.hosts for item in skippers)


def _read_groups(
    source: ByteSource, ranges: Sequence[KeyGroupRange], probe_bytes: int, whole: bool
) -> Iterator[tuple[KeyGroupRange, bytes]]:
    """Read all key groups, about ``probe_bytes`` at once; without ``whole``, what the first so many bytes hold."""
    wanted = [(item.start, item.stop) for item in ranges] if whole else []
    with reading_ahead(source, wanted) as ahead:
        for run in split_ranges(ranges, probe_bytes) if whole else (ranges,):
            start, size = run[0].start, run[-1].stop - run[0].start
            data = ahead.read(start, size if whole else min(size, probe_bytes))
            for item in run:
                raw = data[item.start - start : item.stop - start]
                if len(raw) < GROUP_HEAD:
                    return
                yield item, raw


def _skipper(state: StateDescriptor | str, ctx: LayoutContext) -> Machine | SnapshotError:
    """Return a program that skips entries of the state, or why there is none."""
    try:
        if isinstance(state, str):
            raise Undecodable(state)
        return Machine(skip_program(state, ctx))
    except Undecodable as error:
        return error


@dataclass
class _Probe:
    """Walks key groups and collects the errors of states."""

    file: str
    states: Sequence[StateDescriptor | str]
    skippers: Sequence[Machine | SnapshotError]
    compressed: bool
    errors: dict[str, dict[int, SnapshotError]] = field(default_factory=dict)

    def walk(self, raw: bytes, item: KeyGroupRange) -> None:
        """Walk the sections in ``raw``, the beginning of the key group. Raises CorruptSnapshot."""
        streams: tuple[int, ...] = ()
        if self.compressed:
            whole = frames(raw[GROUP_HEAD:], self.file, item.start + GROUP_HEAD)
            body = raw[GROUP_HEAD : GROUP_HEAD + whole.size]
            raw = raw[:GROUP_HEAD] + decompress_frames(body, self.file, item.start)
            streams = tuple(GROUP_HEAD + at for at in whole.streams)
        data, pos, seen = np.frombuffer(raw, dtype=np.uint8), GROUP_HEAD, set[int]()
        while pos + SECTION.size <= len(raw):
            state = int.from_bytes(raw[pos : pos + 2], "big")
            entries = int.from_bytes(raw[pos + 2 : pos + SECTION.size], "big", signed=True)
            if state >= len(self.states) or state in seen or entries < 0:
                return  # damaged
            seen.add(state)
            begin, end = pos + SECTION.size, self._end(state, entries, data, pos + SECTION.size)
            if isinstance(end, SnapshotError):
                where = Where(self.file, item.start + (0 if self.compressed else begin))
                self._report(state, entries, seen, end, item.key_group, where)
                end = next((at for at in streams if at > begin), None) if self.compressed else None
            if end is None:
                return
            pos = end

    def _end(self, state: int, entries: int, data: Bytes, pos: int) -> int | SnapshotError | None:
        """Return where the entries end; None beyond the data; or why the end is unknown."""
        skipper = self.skippers[state]
        if isinstance(skipper, SnapshotError):
            return skipper if entries else pos
        try:
            while entries:
                rows, pos = skipper.run_stream(data, pos, len(data), entries)
                if not rows:
                    return None
                entries -= rows
        except HostFailure as failure:
            return failure.error if isinstance(failure.error, UnsupportedSnapshot) else None
        except DecodeFailure:
            return None
        return pos

    def _report(
        self, state: int, entries: int, seen: set[int], reason: SnapshotError, key_group: int, where: Where
    ) -> None:
        """Record that the state's values have no known end, and which states these hide."""
        name = self._name(state)
        own = type(reason)(reason.message, where=where, advice=reason.advice)
        self.errors.setdefault(name, {}).setdefault(key_group, own)
        if not self.compressed:
            for other in set(range(len(self.states))) - seen:
                hidden = self._name(other)
                error = hidden_state_error(hidden, name, entries, key_group, reason, where)
                self.errors.setdefault(hidden, {}).setdefault(key_group, error)

    def _name(self, state: int) -> str:
        described = self.states[state]
        return described if isinstance(described, str) else described.name
