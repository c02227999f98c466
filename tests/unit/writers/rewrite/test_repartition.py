"""Redistribution of Flink's operator state to another number of subtasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stateproc.errors import InvalidOption
from stateproc.flink_versions import release
from stateproc.metadata.operator_handles import OperatorHandle, StatePartition
from stateproc.model.operator import Operator
from stateproc.model.operator_state import OperatorFile
from stateproc.storage import open_handle
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from stateproc.writers.commit.staging import Staging
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.operator_state_copy import (
    RawElements,
    distributed,
    merged_operator_header,
    repartitioned,
    subtask_states,
)
from stateproc.writers.rewrite.operator_state_edits import edited_operator_state
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.writers.operator_elements import contents

PARALLELISMS = (1, 3, 40)
OF_OPERATORS = [item for item in fixtures() if item.manifest["job"] in ("operators", "corners")]
Elements = dict[str, list[bytes]]


def by_subtask(files: list[OperatorFile]) -> list[Elements]:
    return [contents(file.source, file.handle.states, file.header.compressed) for file in files]


def read(operator: Operator, parallelism: int, staging: Staging) -> list[OperatorFile]:
    """Return the files of the new subtasks, one of each."""
    shares = subtask_states(operator, parallelism, {})
    repartitioned_operator = repartitioned(operator, operator.metadata, shares, release("1.20"), staging, verify=True)
    assert repartitioned_operator.parallelism == parallelism
    handles = [subtask.managed_operator for subtask in repartitioned_operator.subtasks if subtask.index < parallelism]
    files = [OperatorFile(index, known(handle), open_handle(known(handle).stream, staging.location))
             for index, handle in enumerate(handles)]  # fmt: skip
    assert len(files) == parallelism
    return files


def known(handle: OperatorHandle | None) -> OperatorHandle:
    assert handle is not None
    return handle


@pytest.mark.parametrize("item", OF_OPERATORS, ids=lambda item: item.name)
@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_every_element_is_assigned_to_one_subtask(item: Fixture, parallelism: int, tmp_path: Path) -> None:
    staging = Commit.begin(StorePath.of(tmp_path / "s")).staging
    for operator in item.open().operators:
        if not operator.operator_files:
            continue
        before = by_subtask(list(operator.operator_files))
        files = read(operator, parallelism, staging)
        after = by_subtask(files)
        modes = {state.name: state.mode for file in operator.operator_files for state in file.handle.states}
        for name, mode in modes.items():
            held = [elements.get(name, []) for elements in before]
            got = [elements.get(name, []) for elements in after]
            if mode == "BROADCAST":
                assert got == [next(some for some in held if some)] * parallelism
                continue
            assert [one for some in got for one in some] == [one for some in held for one in some]
            numbers = [len(some) for some in got]
            assert max(numbers) - min(numbers) <= 1 and numbers == sorted(numbers, reverse=True)
        wanted = merged_operator_header(operator)
        for file in files:
            assert [(info.name, info.options, info.snapshots) for info in file.header.states] == [
                (info.name, info.options, info.snapshots) for info in wanted.states
            ]
            assert {state.name: state.mode for state in file.handle.states} == modes


@pytest.mark.parametrize(
    ("held", "parallelism", "numbers"),
    [((3, 2), 1, [5]), ((3, 2), 2, [3, 2]), ((3, 2), 3, [2, 2, 1]), ((1, 0, 1), 5, [1, 1, 0, 0, 0]), ((0,), 2, [0, 0])],
)
def test_number_of_elements_of_each_subtask(held: tuple[int, ...], parallelism: int, numbers: list[int]) -> None:
    file = OF_OPERATORS[0].open().operators[0].operator_files[0]
    parts = [RawElements(file, StatePartition("s", "SPLIT_DISTRIBUTE", tuple(range(n)))) for n in held]
    partitions = distributed(parts, parallelism)
    assert [sum(len(part) for part in parts) for parts in partitions] == numbers


def test_raw_operator_state_is_refused() -> None:
    operator = next(found for found in OF_OPERATORS[0].open().operators if found.operator_files)
    first, *rest = operator.metadata.subtasks
    raw = replace(operator.metadata, subtasks=(replace(first, raw_operator=first.managed_operator), *rest))
    with pytest.raises(InvalidOption, match="raw operator state, which only its own code can read"):
        edited_operator_state(ExistingOperator(operator), raw, 5, release("1.20"))
