"""The kernels as plain Python over checked memory: a load or store outside of its buffer is an AssertionError.

The same source is loaded a second time with another ``stateproc.codec.native.jit``: ``kernel`` does not compile, loads
and stores ask :class:`Memory` first, arrays refuse indexes that numba would not check.
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import stateproc.codec.machine as machine_module
import stateproc.readers.canonical.entry_scan as scanning_module
import stateproc.readers.canonical.reader as canonical_module
import stateproc.readers.entry_decoder as maps_module
from stateproc.codec import ops
from stateproc.codec.machine import Columns
from stateproc.codec.native import jit
from stateproc.codec.vm import dispatch, vectorized


class Memory:
    """The ranges that kernels may touch now: (start, stop, writable)."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, bool]] = []
        self.columns: tuple[int, int] = (0, 0)
        self.touched = 0
        self.shapes: dict[int, tuple[int, int]] = {}
        """Segments and rows of the tables of spans, by their addresses."""

    def check(self, at: int, n: int, write: bool) -> int:
        at = int(at)
        self.touched += 1
        for start, stop, writable in self.ranges:
            if start <= at and at + n <= stop and (writable or not write):
                return at
        table, count = self.columns
        for entry in np.ctypeslib.as_array((ctypes.c_int64 * (3 * count)).from_address(table)).reshape(-1, 3):
            if entry[0] <= at and at + n <= entry[0] + entry[2]:
                return at
        raise AssertionError(f"{'store' if write else 'load'} of {n} bytes at {at}, outside of {self.ranges}")


MEMORY = Memory()


def _fake_jit() -> ModuleType:
    fake = ModuleType("stateproc.codec.native.jit")

    def load(bits: int, order: str, signed: bool = False) -> Any:
        def read(at: int) -> Any:
            raw = ctypes.string_at(MEMORY.check(at, bits // 8, False), bits // 8)
            value = int.from_bytes(raw, order, signed=signed)  # type: ignore[arg-type]
            return np.uint64(value) if bits == 64 and not signed else np.int64(value)

        return read

    def store(bits: int) -> Any:
        def write(at: int, value: int) -> None:
            raw = (int(value) & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
            ctypes.memmove(MEMORY.check(at, bits // 8, True), raw, bits // 8)

        return write

    def copy_bytes(target: int, source: int, n: int) -> None:
        if n:
            ctypes.memmove(MEMORY.check(target, n, True), MEMORY.check(source, n, False), n)

    def crc32c_word(crc: int, word: int) -> int:
        crc = int(crc) ^ (int(word) & (2**64 - 1))
        for _ in range(64):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        return crc

    fake.__dict__.update(
        kernel=lambda function: function,
        inlined=lambda function: function,
        exported=lambda function: function,
        copy_bytes=copy_bytes,
        crc32c_word=crc32c_word,
        load_u8=load(8, "little"),
        load_i32=load(32, "little", True),
        load_i64=load(64, "little", True),
        load_be16=load(16, "big"),
        load_be32=load(32, "big"),
        load_be64=load(64, "big"),
        load_le16=load(16, "little"),
        load_le32=load(32, "little"),
        load_le64=load(64, "little"),
        float_of=lambda bits: struct.unpack("<f", struct.pack("<I", int(bits) & 0xFFFFFFFF))[0],
        double_of=lambda bits: struct.unpack("<d", struct.pack("<Q", int(bits) & (2**64 - 1)))[0],
        store_8=store(8),
        store_16=store(16),
        store_32=store(32),
        store_64=store(64),
    )
    return fake


_PLAIN: dict[str, ModuleType] = {}
"""The modules that were loaded again, by their names."""


def plain_module(module: ModuleType) -> ModuleType:
    """Load the module's source again with its kernels uncompiled, and so the modules whose kernels it calls."""
    if module.__name__ in _PLAIN:
        return _PLAIN[module.__name__]
    replaced = {name: plain_module(sys.modules[name]) for name in sorted(_modules_of_kernels(module))}
    replaced["stateproc.codec.native.jit"] = _fake_jit()
    saved = {name: sys.modules.get(name) for name in replaced}
    sys.modules.update(replaced)
    try:
        assert module.__file__ is not None
        name = f"checked_{module.__name__.replace('.', '_')}"
        spec = importlib.util.spec_from_file_location(name, module.__file__)
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[name] = loaded  # dataclasses look their module up
        with _replaced_attributes(replaced):
            spec.loader.exec_module(loaded)
    finally:
        for name, item in saved.items():
            if item is not None:
                sys.modules[name] = item
    compiled = [name for name, item in vars(loaded).items() if isinstance(item, jit.Kernel | jit.Intrinsic)]
    assert not compiled, f"{module.__name__} calls kernels that are not checked: {compiled}"
    _PLAIN[module.__name__] = loaded
    return loaded


def _modules_of_kernels(module: ModuleType) -> set[str]:
    """The modules whose kernels a module imports, one by one or all together."""
    found = {item.__module__ for item in vars(module).values() if isinstance(item, jit.Kernel)}
    found |= {
        item.__name__
        for item in vars(module).values()
        if isinstance(item, ModuleType)
        and item.__name__.startswith("stateproc.")
        and any(isinstance(one, jit.Kernel) for one in vars(item).values())
    }
    return found - {module.__name__}


@contextmanager
def _replaced_attributes(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Have ``from package import module`` find these modules, too."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            package, _, attribute = name.rpartition(".")
            patch.setattr(sys.modules[package], attribute, module, raising=False)
        yield


def replace_module(patch: pytest.MonkeyPatch, user: ModuleType, module: ModuleType, **replaced: Any) -> None:
    """Have a module use other functions of a second one, or of its own, under whatever name it imports them."""
    shim = ModuleType(module.__name__)
    shim.__dict__.update(vars(module), **replaced)
    names = 0
    for name, value in list(vars(user).items()):
        if isinstance(value, ModuleType) and value.__name__ == module.__name__:
            patch.setattr(user, name, shim)
            names += 1
        for function, other in replaced.items():
            if value is getattr(module, function):
                patch.setattr(user, name, other)
                names += 1
    assert names, f"{user.__name__} uses nothing of {module.__name__}"


class Checked:
    """An array that refuses indexes outside of it, negative ones too."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def _place(self, index: Any) -> Any:
        for one, size in zip(index if isinstance(index, tuple) else (index,), self._array.shape, strict=True):
            if not 0 <= one < size:
                raise AssertionError(f"index {index} outside of {self._array.shape}")
        return index

    def __getitem__(self, index: Any) -> Any:
        # As numba has it: integers of any width are added as 64 bits.
        return np.int64(self._array[self._place(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[self._place(index)] = value

    def __len__(self) -> int:
        return len(self._array)


_VM = plain_module(dispatch)
_VECTORIZED = plain_module(vectorized)
_SCANNING = plain_module(scanning_module)
_MAPS = plain_module(maps_module)


def _span_ranges(machine: Any, spans: Any) -> list[tuple[int, int, bool]]:
    """The memory of the starts and ends of rows."""
    segments, rows = (1, 1) if spans is machine._span_at else MEMORY.shapes[spans.starts]
    return [
        (at + segment * stride, at + segment * stride + 8 * rows, False)
        for at, stride in ((spans.starts, spans.start_stride), (spans.ends, spans.end_stride))
        for segment in range(segments)
    ]


def _run(machine: Any, data: Any, spans: Any) -> Any:
    """The VM's run for this machine and data, checked."""

    def run(
        prog: int,
        fills: int,
        names: int,
        source: int,
        starts: int,
        start_stride: int,
        ends: int,
        end_stride: int,
        last: int,
        stream: bool,
        columns: int,
        n_columns: int,
        saved: int,
        reg: int,
        stack: int,
        kryo: int,
    ) -> int:
        program = machine.program
        MEMORY.ranges = [
            (source, source + len(data), False),
            (prog, prog + program.code.nbytes, False),
            (fills, fills + program.fills.nbytes, False),
            (names, names + program.names.nbytes, False),
            (columns, columns + 24 * n_columns, True),
            (saved, saved + machine._columns.saved.nbytes, True),
            (reg, reg + machine._reg.nbytes, True),
            (stack, stack + machine._stack.nbytes, True),
            (kryo, kryo + machine._kryo.nbytes, True),
            *_span_ranges(machine, spans),
        ]
        MEMORY.columns = (columns, n_columns)
        with np.errstate(over="ignore"):
            status: int = _VM.run(
                prog,
                fills,
                names,
                source,
                starts,
                start_stride,
                ends,
                end_stride,
                last,
                stream,
                columns,
                n_columns,
                saved,
                reg,
                stack,
                kryo,
            )
        assert 0 <= machine._reg[ops.POS] <= len(data) or status != ops.DONE
        return status

    return run


def _run_vectorized_checked(machine: Any, data: Any, spans: Any) -> Any:
    """vectorized.run for this machine and data, checked."""

    def run(
        prog: int,
        fills: int,
        source: int,
        starts_at: int,
        start_stride: int,
        ends_at: int,
        end_stride: int,
        first: int,
        last: int,
        columns: int,
        widths: int,
        n_columns: int,
        saved: int,
        reg: int,
        scratch: int,
    ) -> Any:
        program = machine.program
        MEMORY.ranges = [
            (source, source + len(data), False),
            (prog, prog + program.code.nbytes, False),
            (fills, fills + program.fills.nbytes, False),
            (columns, columns + 24 * n_columns, True),
            (widths, widths + program.column_widths.nbytes, False),
            (saved, saved + machine._columns.saved.nbytes, True),
            (reg, reg + machine._reg.nbytes, True),
            (scratch, scratch + machine._scratch.nbytes, True),
            *_span_ranges(machine, spans),
        ]
        MEMORY.columns = (columns, n_columns)
        with np.errstate(over="ignore"):
            return _VECTORIZED.run(
                prog,
                fills,
                source,
                starts_at,
                start_stride,
                ends_at,
                end_stride,
                first,
                last,
                columns,
                widths,
                n_columns,
                saved,
                reg,
                scratch,
            )

    return run


@contextmanager
def checked_kernels() -> Iterator[Memory]:
    """Inside: VM, scan and map grouping run as plain Python over checked memory, with small columns at first."""
    patch = pytest.MonkeyPatch()
    drive, run_vectorized = machine_module.Machine._run_rows, machine_module.Machine._run_vectorized

    described = machine_module._Spans.of

    def spans_of(starts: Any, ends: Any) -> Any:
        spans = described(starts, ends)
        MEMORY.shapes[spans.starts] = starts.shape
        return spans

    def driven_vectorized(self: Any, data: Any, spans: Any, *rest: Any) -> int:
        with pytest.MonkeyPatch.context() as inner:
            replace_module(inner, machine_module, vectorized, run=_run_vectorized_checked(self, data, spans))
            return run_vectorized(self, data, spans, *rest)

    def driven(self: Any, data: Any, spans: Any, *rest: Any) -> int:
        with pytest.MonkeyPatch.context() as inner:
            replace_module(inner, machine_module, dispatch, run=_run(self, data, spans))
            return drive(self, data, spans, *rest)

    def scan(source: int, size: int, reg: Any, groups: Any, starts: Any, *rest: Any) -> Any:
        MEMORY.ranges, MEMORY.columns = [(source, source + size, False)], (0, 0)
        *numbers, out, key_groups = rest
        return _SCANNING.scan(
            source, size, Checked(reg), Checked(groups), Checked(starts), *numbers, Checked(out), Checked(key_groups)
        )

    def new_keys(source: int, starts: Any, stops: Any, out: Any) -> None:
        low, high = int(starts.min()), int(stops.max())
        assert low >= 0 and (starts <= stops).all()
        MEMORY.ranges, MEMORY.columns = [(source + low, source + high, False)], (0, 0)
        _MAPS._new_keys(source, Checked(starts), Checked(stops), Checked(out))

    patch.setattr(machine_module._Spans, "of", spans_of)
    patch.setattr(machine_module.Machine, "_run_rows", driven)
    patch.setattr(machine_module.Machine, "_run_vectorized", driven_vectorized)
    replace_module(patch, canonical_module, scanning_module, scan=scan)
    patch.setattr(maps_module, "_new_keys", new_keys)
    patch.setattr(Columns, "_INITIAL_CAPACITY", 16)
    try:
        yield MEMORY
    finally:
        patch.undo()
