"""One way to compile a kernel: numba, cached on disk where a cache can be written, imported at the first call.

Spark imports this package in a new process for every planning phase, which calls no kernel; importing numba takes
longer than all the rest. So kernels and the loads and stores they use are placeholders until one is called: then numba
is imported, and the placeholders in the kernels' modules give way to what they stand for.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


class _Later:
    """A placeholder for what ``make`` makes when the first kernel is called."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def made(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __call__(self, *arguments: Any) -> Any:
        get_ready()
        return self.made()(*arguments)


_modules: list[dict[str, Any]] = []
_lock = threading.RLock()
_ready = False


def get_ready() -> None:
    """Import numba and put real kernels in the place of placeholders. Nothing is compiled before it is called."""
    global _ready
    with _lock:
        if _ready:
            return
        _ready = True
        for module in [globals(), *_modules]:
            for name, item in list(module.items()):
                if isinstance(item, _Later):
                    module[name] = item.made()


def kernel(function: Function) -> Function:
    """Compile ``function`` with numba at its first call; the machine code is cached where that is possible."""
    return _kernel(function, False)


def inlined(function: Function) -> Function:
    """A kernel that becomes part of every kernel that calls it: a step of a loop so hot that a call is dear."""
    return _kernel(function, True)


def _kernel(function: Function, inline: bool) -> Function:
    if _ready:
        return _compiled(function, inline)  # type: ignore[no-any-return]
    if not any(module is function.__globals__ for module in _modules):
        _modules.append(function.__globals__)
    return _Later(lambda: _compiled(function, inline))  # type: ignore[return-value]


def _compiled(function: Any, inline: bool) -> Any:
    import numba

    # numba refuses cache=True where neither the package's folder nor the user's cache folder can be written
    # (containers with a read-only file system): then the kernel is compiled in every process instead.
    try:
        compiled = numba.njit(cache=True, nogil=True, forceinline=inline)(function)
    except RuntimeError:
        return numba.njit(nogil=True, forceinline=inline)(function)
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None and hasattr(file, "_source_stamp"):
        # numba looks at the kernel's own file only; what it calls is compiled into it.
        file._source_stamp = (file._source_stamp, _kernel_sources(Path(function.__code__.co_filename).parent))
    return compiled


@lru_cache
def _kernel_sources(folder: Path) -> str:
    """A hash of all sources that kernels in ``folder`` may be made of."""
    found = hashlib.sha256()
    for name, source in kernel_files(folder).items():
        found.update(name.encode() + b"\0" + source)
    return found.hexdigest()


def kernel_files(folder: Path) -> dict[str, bytes]:
    """Path and source of each file with kernels, or with constants that kernels hold, that those in ``folder`` may
    call: all of the codec's rooms, and those beside them."""
    here = Path(__file__).parent
    found = {}
    for path in sorted({*here.rglob("*.py"), *folder.glob("*.py")}):
        source = path.read_bytes()
        if b"@kernel" in source or b"@inlined" in source or path in (here / "jit.py", here / "ops.py"):
            found[path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name] = source
    return found


def _load(bits: int, *, swap: bool = False, signed: bool = False) -> Any:
    """An intrinsic ``load(address)``: the integer of ``bits`` that lies there, aligned or not.

    Narrow ones come as int64, so that they mix with other int64s; unsigned 64 bits as uint64.
    """

    def make() -> Any:
        from llvmlite import ir
        from numba.core import types
        from numba.extending import intrinsic

        def typing(_context: Any, address: Any) -> Any:
            signature = (types.uint64 if bits == 64 and not signed else types.int64)(types.int64)

            def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                place = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
                value = builder.load(place)
                value.align = 1
                if swap:
                    value = builder.bswap(value)
                if bits == 64:
                    return value
                return (builder.sext if signed else builder.zext)(value, ir.IntType(64))

            return signature, generate

        return intrinsic(typing)

    return _Later(make)


def _reinterpret(bits: int) -> Any:
    """An intrinsic ``number(value)``: the low ``bits`` of value as the IEEE 754 number they are, as a float64."""

    def make() -> Any:
        from llvmlite import ir
        from numba.core import types
        from numba.extending import intrinsic

        def typing(_context: Any, value: Any) -> Any:
            def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                narrow = args[0] if bits == 64 else builder.trunc(args[0], ir.IntType(bits))
                number = builder.bitcast(narrow, ir.DoubleType() if bits == 64 else ir.FloatType())
                return number if bits == 64 else builder.fpext(number, ir.DoubleType())

            return types.float64(types.int64), generate

        return intrinsic(typing)

    return _Later(make)


def _store(bits: int) -> Any:
    """An intrinsic ``store(address, value)``: the low ``bits`` of value, native order, aligned or not."""

    def make() -> Any:
        from llvmlite import ir
        from numba.core import types
        from numba.extending import intrinsic

        def typing(_context: Any, address: Any, value: Any) -> Any:
            signature = types.void(types.int64, types.int64)

            def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                value = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits))
                stored = builder.store(value, builder.inttoptr(args[0], ir.IntType(bits).as_pointer()))
                stored.align = 1
                return context.get_dummy_value()

            return signature, generate

        return intrinsic(typing)

    return _Later(make)


# Kernels work on addresses rather than on arrays: passing arrays between kernels counts references, which costs
# more than the work itself. Every address is checked against its range by the code around the load or store.
load_u8, load_i32, load_i64 = _load(8), _load(32, signed=True), _load(64, signed=True)
load_be16, load_be32, load_be64 = _load(16, swap=True), _load(32, swap=True), _load(64, swap=True)
load_le16, load_le32, load_le64 = _load(16), _load(32), _load(64)
float_of, double_of = _reinterpret(32), _reinterpret(64)
store_8, store_16, store_32, store_64 = _store(8), _store(16), _store(32), _store(64)


@kernel
def copy_bytes(target: int, source: int, n: int) -> None:
    """Copy ``n`` bytes between addresses that do not overlap."""
    k = 0
    while k + 8 <= n:
        store_64(target + k, np.int64(load_le64(source + k)))
        k += 8
    while k < n:
        store_8(target + k, np.int64(load_u8(source + k)))
        k += 1
