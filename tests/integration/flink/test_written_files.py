"""Real Flink restores state files that the writers made of another snapshot's entries and elements."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc.flink_versions import release as release_of
from stateproc.metadata.backend import read_operator_header, write_keyed_header
from stateproc.metadata.operator_handles import OperatorStreamHandle
from stateproc.metadata.stream_handles import KeyGroupsHandle
from stateproc.model.operator_state import OperatorFile
from stateproc.readers.keyed_file import KeyedFile
from stateproc.serializers import LayoutContext
from stateproc.storage.store import StorePath
from stateproc.wire import Cursor
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.canonical import CanonicalWriter, verify_canonical
from stateproc.writers.formats.heap import HeapWriter, verify_heap
from stateproc.writers.formats.operator_state import OperatorStateWriter, verify_operator_state
from tests.helpers.fixtures import FIXTURES, Fixture
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import Restored, Spec, restore
from tests.helpers.flink.restored_state import differences, in_their_windows
from tests.helpers.writers.keyed_entries import batches, entries_of, handle_of, header_of
from tests.helpers.writers.operator_elements import contents, keys_and_values
from tests.helpers.writers.written_files import written_file

pytestmark = pytest.mark.flink

RELEASES = ("1.20", "2.3")
Results = Callable[[str], dict[str, Restored]]
NO_INLINE = 0


@dataclass(frozen=True)
class Case:
    """A fixture's snapshot written again: keyed state natively for the heap or canonically, compressed or plain."""

    fixture: str
    heap: bool
    compressed: bool

    @property
    def name(self) -> str:
        return f"{self.fixture} {'heap' if self.heap else 'canonical'}{' compressed' if self.compressed else ''}"

    @property
    def backends(self) -> tuple[str, ...]:
        return ("hashmap",) if self.heap else ("hashmap", "rocksdb")


CASES = (
    Case("kitchen-rocksdb-canonical", heap=True, compressed=False),
    Case("kitchen-rocksdb-canonical", heap=True, compressed=True),
    Case("windows-rocksdb-canonical", heap=True, compressed=True),
    Case("kitchen-hashmap-canonical", heap=False, compressed=True),
    Case("windows-hashmap-canonical", heap=False, compressed=False),
    Case("operators-rocksdb-canonical", heap=False, compressed=False),
    Case("operators-rocksdb-canonical", heap=False, compressed=True),
)


BY_RELEASE = [
    pytest.param(release, case, id=f"{release}-{case.name}") for release, case in itertools.product(RELEASES, CASES)
]


def opened(release: str, case: Case) -> Fixture:
    path = FIXTURES / release / case.fixture
    return Fixture(path, json.loads((path / "manifest.json").read_text()))


def keyed(file: KeyedFile, staging: Staging, case: Case, ctx: LayoutContext) -> KeyGroupsHandle:
    """The file's entries in a file of its own."""
    header, key_groups = header_of(file), handle_of(file).key_groups
    names, states = [state.name for state in header.states], list(file.states)
    written = write_keyed_header(header.key_snapshot, header.states, compressed=case.compressed)
    writer: CanonicalWriter | HeapWriter
    with staging.new_file(NO_INLINE) as out:
        if case.heap:
            writer = HeapWriter(out, written, states, key_groups, ctx, compressed=case.compressed)
        else:
            writer = CanonicalWriter(out, written, names, key_groups, file.max_parallelism, compressed=case.compressed)
        for batch in batches(sorted(entries_of(file)), 10):
            writer.write(batch)
        offsets = writer.close()
    assert out.handle is not None
    if case.heap:
        handle = KeyGroupsHandle(12, key_groups.start, offsets, out.handle, f"id {out.name}")
        verify_heap(
            written_file(staging.location, states, context=ctx, compressed=case.compressed), handle, writer.entries
        )
        return handle
    handle = KeyGroupsHandle(7, key_groups.start, offsets, out.handle)
    of = written_file(staging.location, names, max_parallelism=file.max_parallelism, compressed=case.compressed)
    verify_canonical(of, handle, writer.entries)
    return handle


def operator_state(file: OperatorFile, staging: Staging, case: Case) -> OperatorStreamHandle:
    """The file's elements in a file of its own."""
    header = read_operator_header(Cursor(file.source.read(0, file.source.size)))
    elements = contents(file.source, file.handle.states, header.compressed)
    infos = {info.name: info for info in header.broadcast}
    with staging.new_file() as out:
        writer = OperatorStateWriter(out, header.states, header.broadcast, version=6, compressed=case.compressed)
        for state in file.handle.states:
            if state.mode != "BROADCAST":
                writer.elements(state.name, pa.array(elements[state.name], pa.binary()))
            elif state.offsets:
                writer.entries(state.name, *keys_and_values(infos[state.name], elements[state.name][0]))
        states = writer.close()
    assert out.handle is not None
    handle = OperatorStreamHandle(4, states, out.handle)
    verify_operator_state(handle, staging.location, compressed=case.compressed)
    return handle


def write_again(release: str, case: Case, target: Path) -> None:
    """The whole snapshot, file by file."""
    snapshot = stateproc.open(opened(release, case).snapshot)
    begun = Commit.begin(StorePath.of(target), sources=[snapshot.location.directory_uri])
    ctx = LayoutContext(kryo=release_of(release).kryo)
    operators = []
    for operator in snapshot.operators:
        keyed_handles = {file.subtask: keyed(file, begun.staging, case, ctx) for file in operator.keyed_files}
        others = {file.subtask: operator_state(file, begun.staging, case) for file in operator.operator_files}
        subtasks = tuple(
            replace(
                subtask,
                managed_keyed=keyed_handles.get(subtask.index),
                managed_operator=others.get(subtask.index),
            )
            for subtask in operator.metadata.subtasks
        )
        operators.append(replace(operator.metadata, subtasks=subtasks))
    metadata = replace(snapshot.metadata, operators=tuple(operators), properties=None)
    assert begun.complete(metadata, release_of(release).metadata_version) == ()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What a release restored, run on first use."""
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            root = tmp_path_factory.mktemp(f"written-{release}")
            specs = []
            for number, case in enumerate(CASES):
                write_again(release, case, root / str(number))
                job: Any = opened(release, case).manifest["job"]
                specs.append(Spec(case.name, str(root / str(number)), OPERATORS[job], case.backends, (1, 3)))
            done[release] = restore(release, specs, root / "restored")
        return done[release]

    return of


@pytest.mark.parametrize(("release", "case"), BY_RELEASE)
def test_flink_reads_back_what_the_job_held(results: Results, release: str, case: Case) -> None:
    restored, expected = results(release)[case.name], list(opened(release, case).expected())
    assert restored.failures() == {}
    assert set(restored.compatibility.values()) <= {"as is"} and restored.unread == set()
    timers = [line for line in expected if line["kind"].startswith("timer-")]
    for (backend, parallelism), run in restored.runs.items():
        found = in_their_windows(run.contents)
        assert (backend, differences(expected, found, parallelism=parallelism)) == (backend, [])
        lines = (sorted(json.dumps(line, sort_keys=True) for line in some) for some in (run.fired, timers))
        assert next(lines) == next(lines)
