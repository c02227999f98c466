"""Processes that take turns to write to one directory of S3 or HDFS: what one says it has completed is there, whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc import SavepointWriter
from tests.helpers.paths import DEMO
from tests.helpers.stores.remote_store import RemoteStore
from tests.helpers.writers.interleaved_writes import (
    REFUSED,
    Gate,
    in_a_process,
    interleaved,
    steps_of,
    store_steps,
)
from tests.helpers.writers.small_writes import CHANGES, contents

# One of how many orders, of about 900: HDFS takes half a second to close a file.
EVERY = {"s3": 11, "distributed_store": 23}


def _writing(change: str, store: RemoteStore, target: str, mode: Any) -> Callable[[Gate], None]:
    def body(gate: Gate) -> None:
        store_steps(target, gate)
        writer = SavepointWriter.from_existing_savepoint(None, str(DEMO)).with_storage_options(store.options)
        CHANGES[change](writer)
        writer.write(target, mode)

    return body


@pytest.mark.parametrize("mode", ["error", "overwrite"])
@pytest.mark.parametrize("kind", EVERY)
def test_two_writers_that_take_turns(kind: str, mode: str, request: pytest.FixtureRequest) -> None:
    store: RemoteStore = request.getfixturevalue(kind)
    wanted, changes = contents(str(DEMO)), ("copy", "rescale")
    ends: set[tuple[int, ...]] = set()
    upload = sorted(path for path in Path(DEMO).iterdir() if path.is_file())

    def begun(name: str) -> str:
        name = f"turns-{mode}-{name}"
        if mode == "overwrite":
            in_a_process(lambda: store.put(Path(DEMO), name, upload))
        return f"{store.root}/{name}"

    def check(target: str, ended: list[int], order: tuple[object, ...]) -> None:
        if 0 in ended or mode == "overwrite":
            assert contents(target, store.options) == wanted, order
            snapshot = stateproc.open(target, storage_options=store.options)
            assert not snapshot.verify().problems, order
            if ended.count(0) == 1:
                groups = {operator.max_parallelism for operator in snapshot.operators}
                assert (256 in groups) is (changes[ended.index(0)] == "rescale"), order
        else:
            assert "_metadata" not in store.names(target), order
        assert not [name for name in store.names(target) if name.startswith(".")], order

    counts = [steps_of(_writing(change, store, begun(f"counted-{change}"), mode)) for change in changes]
    assert min(counts) >= 12, counts
    orders = [(first, second) for first in range(1, counts[0]) for second in range(1, counts[1])]
    for number, (first, second) in enumerate(orders[:: EVERY[kind]]):
        target = begun(f"{first}-{second}")
        bodies = [_writing(change, store, target, mode) for change in changes]
        ended = interleaved(bodies, [(0, first), (1, second), (number % 2, None)])
        ends.add(tuple(ended))
        order = (first, second, number % 2, ended)
        assert set(ended) <= {0, REFUSED}, order
        assert ended.count(0) <= (1 if mode == "error" else 2), order
        in_a_process(partial(check, target, ended, order))
    assert (0, REFUSED) in ends and (REFUSED, 0) in ends, ends
    print(f"{kind}, {mode}: {len(orders[:: EVERY[kind]])} orders of {counts} steps, {sorted(ends)}")
