"""Entry counts of canonical files: agreement with a full scan, and refusal of damaged files."""

from __future__ import annotations

import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, SnapshotError
from stateproc.keygroups.ranges import prefix_width
from stateproc.readers.canonical.entry_scan import measure_canonical
from stateproc.readers.canonical.reader import canonical_entries
from stateproc.readers.key_group_blocks import group_ranges
from stateproc.readers.keyed_file import KeyedFile
from stateproc.readers.raw_entries import EntryCounts
from tests.helpers.paths import FIXTURES

RELEASE = FIXTURES / "1.20"
CANONICAL = (
    "demo", "kitchen-hashmap-canonical-snappy", "tiny-rocksdb-canonical-1024", "windows-rocksdb-canonical",
)  # fmt: skip


def keyed_files(name: str) -> list[KeyedFile]:
    snapshot = stateproc.open(str(RELEASE / name / "snapshot"))
    return [file for operator in snapshot.operators for file in operator.keyed_files]


def measure(file: KeyedFile) -> EntryCounts:
    header = file.header
    assert header is not None
    prefix = prefix_width(file.max_parallelism)
    return measure_canonical(
        file.source, file.ranges, compressed=header.compressed, prefix=prefix, n_states=len(file.states)
    )


@pytest.mark.parametrize("name", CANONICAL)
def test_counts_equal_those_of_a_full_scan(name: str) -> None:
    for file in keyed_files(name):
        header = file.header
        assert header is not None
        found = measure(file)
        prefix = prefix_width(file.max_parallelism)
        for state in range(len(file.states)):
            counted: dict[int, tuple[int, int]] = {}
            for entries in canonical_entries(
                file.source, file.ranges, compressed=header.compressed, prefix=prefix, state_id=state,
                n_states=len(file.states),
            ):  # fmt: skip
                key_start, key_stop, value_start, value_stop = entries.ranges
                sizes = 8 + prefix + (key_stop - key_start) + (value_stop - value_start)
                for key_group, size in zip(entries.key_groups.tolist(), sizes.tolist(), strict=True):
                    n, total = counted.get(key_group, (0, 0))
                    counted[key_group] = (n + 1, total + size)
            for row, key_group in enumerate(found.key_groups):
                assert (found.entries[row, state], found.bytes[row, state]) == counted.get(key_group, (0, 0))


def test_counted_bytes_and_framing_add_up_to_the_size_of_a_plain_file() -> None:
    for file in keyed_files("demo"):
        found = measure(file)
        runs = int((found.entries > 0).sum())
        # Two bytes of state id before each run of a state's entries, two of end mark per key group.
        assert file.data_bytes == int(found.bytes.sum()) + 2 * runs + 2 * len(file.ranges)


def test_progress_is_reported_for_all_bytes() -> None:
    file = keyed_files("demo")[0]
    advanced: list[int] = []
    header = file.header
    assert header is not None
    measure_canonical(
        file.source, file.ranges, compressed=False, prefix=1, n_states=len(file.states), advance=advanced.append
    )
    assert sum(advanced) == file.data_bytes


class Bytes:
    """A source with the specified bytes."""

    name = "memory"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]


def entry(key: bytes, value: bytes) -> bytes:
    return len(key).to_bytes(4, "big") + key + len(value).to_bytes(4, "big") + value


GROUP = b"\x00\x00" + entry(b"\x05k", b"v") + entry(b"\x85kk", b"") + b"\x00\x01" + entry(b"\x85m", b"w") + b"\xff\xff"


def measured(data: bytes, n_states: int = 2) -> EntryCounts:
    source = Bytes(data)
    ranges = group_ranges(5, [0], source.size, "memory", empty=-1)
    return measure_canonical(source, ranges, compressed=False, prefix=1, n_states=n_states)  # type: ignore[arg-type]


def test_counts_of_a_handwritten_key_group() -> None:
    found = measured(GROUP)
    assert found.key_groups == (5,)
    assert found.entries.tolist() == [[2, 1]]
    assert found.bytes.tolist() == [[8 + 2 + 1 + 8 + 3, 8 + 2 + 1]]


@pytest.mark.parametrize("cut", range(1, len(GROUP)))
def test_every_truncation_is_refused(cut: int) -> None:
    with pytest.raises(CorruptSnapshot):
        measured(GROUP[:cut])


@pytest.mark.parametrize(
    ("at", "byte", "says"),
    [
        (1, 9, "of a state that the header does not list"),
        (2, 0x80, "impossible length"),
        (6, 6, "of another key group"),
        (len(GROUP) - 1, 7, "of a state that the header does not list"),
    ],
)
def test_damage_is_reported_with_its_offset(at: int, byte: int, says: str) -> None:
    damaged = bytearray(GROUP)
    damaged[at] = byte
    with pytest.raises(CorruptSnapshot, match=says) as error:
        measured(bytes(damaged))
    assert error.value.where.file == "memory"
    assert error.value.where.offset is not None


def test_flipped_bits_raise_the_typed_error_or_count_within_bounds() -> None:
    for at in range(len(GROUP)):
        for bit in range(8):
            damaged = bytearray(GROUP)
            damaged[at] ^= 1 << bit
            try:
                found = measured(bytes(damaged))
            except SnapshotError:
                continue
            assert int(found.bytes.sum()) <= len(GROUP)
