"""The writers' kernels as plain Python over checked memory do what the compiled ones do, and touch nothing else."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from stateproc.errors import InvalidEntries
from stateproc.writers.formats import canonical
from stateproc.writers.formats import canonical as layout
from stateproc.writers.formats import order_check as order
from stateproc.writers.formats.canonical import CanonicalWriter
from tests.helpers.damage.checked_kernels import MEMORY, Checked, plain_module, replace_module
from tests.helpers.writers.keyed_entries import Entry, batches

_LAYOUT, _ORDER = plain_module(layout), plain_module(order)


def write(entries: list[Entry], max_parallelism: int, size: int) -> tuple[bytes, tuple[int, ...]] | str:
    sink = io.BytesIO()
    writer = CanonicalWriter(sink, b"header", ("a", "b", "c"), range(3, 120), max_parallelism)
    try:
        for batch in batches(entries, size):
            writer.write(batch)
    except InvalidEntries as error:
        return str(error)
    return sink.getvalue(), writer.close()


def _span(address: int, offsets: Any) -> tuple[int, int, bool]:
    return address + int(offsets[0]), address + int(offsets[-1]), False


class _CheckedWriter:
    """Replace the kernels by plain ones; check their arguments, and each load and store against these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._held: dict[str, Any] = {}
        replace_module(monkeypatch, canonical, layout, encode_entries=self._encode)
        monkeypatch.setattr(order, "check", self._check)
        monkeypatch.setattr(CanonicalWriter, "_write", self._writing(CanonicalWriter._write))

    def _writing(self, inner: Any) -> Any:
        def write(writer: CanonicalWriter, *arguments: Any) -> None:
            self._held["writer"] = writer
            inner(writer, *arguments)

        return write

    def _encode(
        self, first: int, last: int, groups: Any, states: Any, keys: int, key_offsets: Any, values: int,
        value_offsets: Any, first_group: int, prefix: int, out: int, reg: Any, began: Any, counts: Any,
    ) -> None:  # fmt: skip
        size = len(self._held["writer"]._out)
        MEMORY.columns = (0, 0)
        MEMORY.ranges = [_span(keys, key_offsets), _span(values, value_offsets), (out, out + size, True)]
        _LAYOUT.encode_entries(
            first, last, Checked(groups), Checked(states), keys, Checked(key_offsets), values,
            Checked(value_offsets), first_group, prefix, out, Checked(reg), Checked(began), _Shaped(counts),
        )  # fmt: skip

    def _check(
        self, groups: Any, states: Any, keys: int, key_offsets: Any, value_offsets: Any, first_group: int,
        n_groups: int, n_states: int, last: int, last_size: int, reg: Any,
    ) -> int:  # fmt: skip
        MEMORY.columns = (0, 0)
        MEMORY.ranges = [_span(keys, key_offsets), (last, last + last_size, False)]
        outcome: int = _ORDER.check(
            Checked(groups), Checked(states), keys, Checked(key_offsets), Checked(value_offsets), first_group,
            n_groups, n_states, last, last_size, Checked(reg),
        )  # fmt: skip
        return outcome


class _Shaped(Checked):
    @property
    def shape(self) -> Any:
        return self._array.shape


@pytest.mark.parametrize("max_parallelism", [128, 1024])
def test_kernels_stay_in_their_buffers(max_parallelism: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(max_parallelism)
    for at_once in (1, 100, 8 << 20):
        monkeypatch.setattr(canonical, "_AT_ONCE", at_once)
        for _ in range(8):
            rows = {
                (rng.randrange(3, 120), rng.randrange(3), rng.randbytes(rng.randrange(12))): rng.randbytes(
                    rng.choice((0, 1, 9, 300))
                )
                for _ in range(rng.randrange(60))
            }
            entries = [(*key, value) for key, value in sorted(rows.items())]
            if entries and rng.random() < 0.3:
                entries.insert(rng.randrange(len(entries)), rng.choice([*entries, (2, 0, b"", b"")]))
            size = rng.choice((1, 7, 100))
            compiled = write(entries, max_parallelism, size)
            with pytest.MonkeyPatch.context() as inner:
                _CheckedWriter(inner)
                before = MEMORY.touched
                assert write(entries, max_parallelism, size) == compiled
            assert MEMORY.touched > before or isinstance(compiled, str) or not entries
