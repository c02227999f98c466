"""Random damage: whatever is done to the bytes, there come rows or errors that name file and offset.

``STATEPROC_MUTATIONS`` says how many (100,000 for the full run), ``STATEPROC_SEED`` where the seeds begin. A failure
names its target and seed; :func:`mutations.mutated` makes the same bytes of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from stateproc.errors import SnapshotError
from stateproc.metadata import read_metadata
from tests.helpers.damage.child_processes import Case, run_cases
from tests.helpers.damage.corpus import Target, file_targets, header_targets, metadata_targets, part_targets
from tests.helpers.damage.mutations import SAME_LENGTH, mutated

PARTS = {"metadata": 0.40, "everything": 0.10, "headers": 0.10, "files": 0.30, "databases": 0.10}
"""Shares of all mutations."""
COUNT = int(os.environ.get("STATEPROC_MUTATIONS", "1500"))
FIRST = int(os.environ.get("STATEPROC_SEED", "0"))


@pytest.fixture(scope="module", autouse=True)
def _kernels_are_compiled() -> None:
    """Children inherit them: compiling takes longer than the seconds a case has."""
    for target in (*file_targets(), *metadata_targets(), *part_targets()):
        target.read(target.data)


def _cases(targets: list[Target], count: int, read: Any = None) -> Iterator[Case]:
    for seed in range(FIRST, FIRST + count):
        target = targets[seed % len(targets)]
        first = target.body if seed % 2 and target.body < len(target.data) else 0
        yield (
            f"{target.name} seed {seed} first {first}",
            lambda target=target, seed=seed, first=first: (read or target.read)(
                mutated(seed, target.data, first=first)
            ),
        )


def _count(part: str) -> int:
    return round(COUNT * PARTS[part])


def _parsed(data: bytes) -> dict[str, Any]:
    read_metadata(data, file="_metadata")
    return {}


def test_mutations_of_metadata_alone() -> None:
    assert run_cases(_cases(list(metadata_targets()), _count("metadata"), _parsed)).failures == ()


def test_mutations_of_metadata_and_all_that_it_leads_to() -> None:
    assert run_cases(_cases(list(metadata_targets()), _count("everything"))).failures == ()


def test_mutations_of_headers() -> None:
    assert run_cases(_cases(list(header_targets()), _count("headers"))).failures == ()


def test_mutations_of_files() -> None:
    """Keyed, operator and raw timer files: header and data in turns."""
    assert run_cases(_cases(list(file_targets()), _count("files"))).failures == ()


def test_mutations_of_databases_and_changelogs() -> None:
    """RocksDB's tables, MANIFEST and header, changelog segments."""
    assert run_cases(_cases(list(part_targets()), _count("databases"))).failures == ()


def test_no_wrong_row_where_checksums_detect_damage() -> None:
    """Compressed data: the rows are those that were written, or there is an error."""
    targets = [target for target in file_targets() if target.checked and 0 < target.body < len(target.data)]
    assert len(targets) > 20

    def case(seed: int) -> Case:
        target = targets[seed % len(targets)]

        def run() -> dict[str, Any]:
            found = target.read(mutated(seed, target.data, first=target.body, kinds=SAME_LENGTH))
            rows = {name: item for name, item in found.items() if not isinstance(item, SnapshotError)}
            right = target.all_rows
            assert {name: repr(item) for name, item in rows.items()}.items() <= right.items()
            return found

        return f"{target.name} seed {seed} first {target.body}", run

    for target in targets:
        assert target.all_rows
    assert run_cases([case(seed) for seed in range(FIRST, FIRST + max(200, COUNT // 20))]).failures == ()
