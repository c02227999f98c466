"""Compile kernels with numba: one decorator, a cache on disk, numba imported at the first call.

Spark imports this package in a new process for every planning phase, which calls no kernel; importing numba takes
longer than all the rest. So kernels and the loads and stores they use are placeholders until one is called: then numba
is imported, and the placeholders in the kernels' modules are replaced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stateproc.codec.kernel_cache import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])


class _Placeholder:
    """Stand for a kernel or an intrinsic until the first kernel is called; ``make`` makes the real one."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def made(self) -> Any:
        if self._made is None:
            with _lock:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def __call__(self, *arguments: Any) -> Any:
        activate_kernels()
        return self.made()(*arguments)


_kernel_globals: list[dict[str, Any]] = []
"""The globals of each module with kernels. A module comes after the modules whose kernels it imports."""
_lock = threading.RLock()
_active = False


def activate_kernels() -> None:
    """Import numba and replace placeholders by real kernels. Nothing is compiled before a kernel is called.

    Other threads may call kernels meanwhile: they get either a placeholder, which waits here, or a kernel whose
    module, and all modules whose kernels it calls, have no placeholder left. So everything is made before anything is
    replaced, a module's globals are replaced in one step, and callees come before their callers.
    """
    global _active
    with _lock:
        if _active:
            return
        replacements = [_made_placeholders(module) for module in _kernel_globals]
        for module, made in zip(_kernel_globals, replacements, strict=True):
            module.update(made)
        _active = True


def _made_placeholders(module: dict[str, Any]) -> dict[str, Any]:
    return {name: item.made() for name, item in list(module.items()) if isinstance(item, _Placeholder)}


def kernel(function: Function) -> Function:
    """Compile ``function`` with numba at its first call; machine code is cached where there is a private directory."""
    return _kernel(function, False)


def inlined(function: Function) -> Function:
    """Make a kernel that is inlined into its callers: for a step of a loop so hot that a call costs too much."""
    return _kernel(function, True)


def _kernel(function: Function, inline: bool) -> Function:
    module = function.__globals__
    with _lock:
        if _active:
            # The module may have imported placeholders before another thread replaced them.
            module.update(_made_placeholders(module))
            return _compiled(function, inline)  # type: ignore[no-any-return]
        if not any(known is module for known in _kernel_globals):
            _kernel_globals.append(module)
    return _Placeholder(lambda: _compiled(function, inline))  # type: ignore[return-value]


def _compiled(function: Any, inline: bool) -> Any:
    """Make numba's dispatcher of ``function``; it compiles when it is called."""
    import numba  # Lazy: start-up (see above)

    folder = cache_folder(Path(function.__code__.co_filename).parent)
    if folder is not None:
        configured, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            compiled = numba.njit(cache=True, nogil=True, forceinline=inline)(function)
        except RuntimeError:
            # numba has found no place for a cache.
            compiled = None
        finally:
            numba.config.CACHE_DIR = configured
        # Where it cannot use the directory, numba turns to others, which need not be private.
        if compiled is not None and Path(compiled.stats.cache_path).is_relative_to(folder):
            return compiled
    return numba.njit(nogil=True, forceinline=inline)(function)


def _load(bits: int, *, swap: bool = False, signed: bool = False) -> Any:
    """Make an intrinsic ``load(address)`` that reads an integer of ``bits``, aligned or not.

    Narrow integers are returned as int64, so that they mix with other int64s; unsigned 64 bits as uint64.
    """

    def make() -> Any:
        # Lazy: start-up (numba is imported at the first call of a kernel)
        from llvmlite import ir
        from numba import types
        from numba.extending import intrinsic

        def typing(_context: Any, address: Any) -> Any:
            signature = (types.uint64 if bits == 64 and not signed else types.int64)(types.int64)

            def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
                value = builder.load(pointer)
                value.align = 1
                if swap:
                    value = builder.bswap(value)
                if bits == 64:
                    return value
                return (builder.sext if signed else builder.zext)(value, ir.IntType(64))

            return signature, generate

        return intrinsic(typing)

    return _Placeholder(make)


def _reinterpret(bits: int) -> Any:
    """Make an intrinsic ``number(value)`` that takes the low ``bits`` of value as an IEEE 754 number, as float64."""

    def make() -> Any:
        # Lazy: start-up (numba is imported at the first call of a kernel)
        from llvmlite import ir
        from numba import types
        from numba.extending import intrinsic

        def typing(_context: Any, value: Any) -> Any:
            def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                narrow = args[0] if bits == 64 else builder.trunc(args[0], ir.IntType(bits))
                number = builder.bitcast(narrow, ir.DoubleType() if bits == 64 else ir.FloatType())
                return number if bits == 64 else builder.fpext(number, ir.DoubleType())

            return types.float64(types.int64), generate

        return intrinsic(typing)

    return _Placeholder(make)


def _store(bits: int) -> Any:
    """Make an intrinsic ``store(address, value)`` of the low ``bits`` of value: native byte order, aligned or not."""

    def make() -> Any:
        # Lazy: start-up (numba is imported at the first call of a kernel)
        from llvmlite import ir
        from numba import types
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

    return _Placeholder(make)


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
