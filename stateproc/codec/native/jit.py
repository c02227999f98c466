"""Declare kernels: functions over addresses and arrays that run as machine code.

A kernel that Python calls is ``exported``: its machine code is in the library that was compiled ahead of time, see
``library``. Where that library does not fit, numba compiles kernels at their first call and caches them on disk.
numba is imported then and not earlier: importing it takes longer than all the rest.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stateproc.codec.native.cache import cache_folder
from stateproc.codec.native.library import kernel_library, native_entry, symbol_of
from stateproc.errors import package_for

# Types of a kernel that Python calls, from its annotations, and how its arguments are passed to machine code.
#
# Arguments and results are passed in one block of 64-bit words: an integer, a truth value or an address takes one word,
# an array the address of its first element and its shape. Results replace the arguments, from the first word on.


@dataclass(frozen=True)
class ArrayType:
    """An array in C order, by the name of its dtype and the number of its dimensions."""

    dtype: str
    ndim: int


Argument = type[int] | type[bool] | ArrayType

ARRAY_TYPES = {
    "Bytes": ArrayType("uint8", 1),
    "Flags": ArrayType("bool", 1),
    "Ints": ArrayType("int32", 1),
    "Longs": ArrayType("int64", 1),
    "LongTable": ArrayType("int64", 2),
    "Words": ArrayType("uint32", 1),
}
"""The names of ``stateproc.codec.array_types``, by which kernels annotate their arguments."""
_SCALARS: dict[str, Argument] = {"int": int, "bool": bool}


@dataclass(frozen=True)
class Signature:
    """The types of a kernel's arguments and results; ``words``: the size of the block they are passed in."""

    arguments: tuple[Argument, ...]
    results: tuple[type[int] | type[bool], ...]
    is_tuple: bool

    @property
    def words(self) -> int:
        sizes = [1 + one.ndim if isinstance(one, ArrayType) else 1 for one in self.arguments]
        return max(sum(sizes), len(self.results), 1)


def signature_of(function: Callable[..., Any]) -> Signature:
    """Return the signature that the annotations of a kernel declare.

    Raises:
        TypeError: An argument has no annotation, or one that machine code cannot be called with.
    """
    code, annotations = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount]
    arguments = tuple(_argument(function, name, str(annotations.get(name))) for name in names)
    declared = str(annotations.get("return"))
    found = re.fullmatch(r"tuple\[(.*)\]", declared)
    texts = [] if declared == "None" else re.split(r",\s*", found[1]) if found else [declared]
    if not set(texts) <= _SCALARS.keys():
        raise TypeError(f"{function.__qualname__}: an exported kernel cannot return {declared}")
    results = tuple(bool if text == "bool" else int for text in texts)
    return Signature(arguments, results, found is not None)


def _argument(function: Callable[..., Any], name: str, declared: str) -> Argument:
    try:
        return _SCALARS[declared] if declared in _SCALARS else ARRAY_TYPES[declared]
    except KeyError:
        known = ", ".join([*_SCALARS, *ARRAY_TYPES])
        raise TypeError(f"{function.__qualname__}: {name} is annotated {declared}, not one of {known}") from None


def check_array(array: Any, expected: ArrayType, kernel: str) -> None:
    """Raise TypeError unless ``array`` has the dtype, dimensions and memory order that the kernel is compiled for."""
    if not (
        isinstance(array, np.ndarray)
        and array.dtype == expected.dtype
        and array.ndim == expected.ndim
        and array.flags.c_contiguous
    ):
        found = f"{array.dtype} array {array.shape}, strides {array.strides}" if hasattr(array, "strides") else array
        raise TypeError(f"{kernel}: {expected.dtype} in {expected.ndim} dimensions, C order, is required, not {found}")


def native_call(name: str, signature: Signature, entry: Callable[[Any], int]) -> Callable[..., Any]:
    """Return a function that calls machine code as the Python function of this signature.

    Args:
        name: The kernel's name, for errors.
        entry: Takes the address of the block of words; returns 0, or the number of an exception.
    """
    types, is_tuple = signature.arguments, signature.is_tuple
    arrays = any(isinstance(one, ArrayType) for one in types)
    sizes = [1 + one.ndim if isinstance(one, ArrayType) else 1 for one in types]
    pack = struct.Struct(f"={sum(sizes)}q").pack_into
    unpack = struct.Struct(f"={len(signature.results)}q").unpack_from
    truths = tuple(kind is bool for kind in signature.results)
    size = 8 * signature.words
    block_type = ctypes.c_char * size

    def call(*arguments: Any) -> Any:
        if arrays:
            words: list[Any] = []
            for kind, argument in zip(types, arguments, strict=True):
                if isinstance(kind, ArrayType):
                    check_array(argument, kind, name)
                    words.append(argument.ctypes.data)
                    words += argument.shape
                else:
                    words.append(argument)
            arguments = tuple(words)
        # A block of its own for each call: threads call kernels at the same time.
        block = bytearray(size)
        pack(block, 0, *arguments)
        status = entry(block_type.from_buffer(block))
        if status:
            raise ArithmeticError(f"kernel {name} failed with status {status}")
        values = [value != 0 if truth else value for value, truth in zip(unpack(block), truths, strict=True)]
        return tuple(values) if is_tuple else values[0] if values else None

    return call


Function = TypeVar("Function", bound=Callable[..., Any])

COMPILING = "compiling kernels with numba, once, about 25 s"
AVOIDED = "`stateproc warmup` does it ahead of time; how to install compiled kernels: docs/install.md"
EXPORTED: dict[str, Kernel] = {}
"""The exported kernels of the modules imported so far, by their symbols in the library."""
_lock = threading.RLock()


class Kernel:
    """A function that runs as machine code, called from Python or, compiled by numba, from other kernels."""

    def __init__(self, function: Callable[..., Any], *, inline: bool, exported: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._inline, self._exported = inline, exported
        self._dispatcher: Any = None
        self._call: Callable[..., Any] = self._first_call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def _first_call(self, *arguments: Any) -> Any:
        self._call = self._chosen()
        return self._call(*arguments)

    def _chosen(self) -> Callable[..., Any]:
        """Return what runs the kernel: its function in the library, or numba."""
        entry = native_entry(self.function) if self._exported else None
        if entry is not None:
            return native_call(self.function.__name__, self.signature, entry)
        self.announce()
        if not self._exported:
            return self.dispatcher  # type: ignore[no-any-return]
        return functools.partial(_call_compiled, self.dispatcher, self.function.__name__, self.signature)

    @property
    def signature(self) -> Signature:
        """The types of an exported kernel. Raises TypeError if its annotations do not declare them."""
        return signature_of(self.function)

    @property
    def dispatcher(self) -> Any:
        """numba's form of the kernel; it compiles when it is called."""
        if self._dispatcher is None:
            with _lock:
                if self._dispatcher is None:
                    self._dispatcher = _compiled(self.function, self._inline)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What numba asks an object for that a kernel uses: a kernel stands for its dispatcher."""
        return self.dispatcher._numba_type_

    @property
    def is_cached(self) -> bool:
        """Whether the machine code that numba made is on disk."""
        folder = self.dispatcher.stats.cache_path
        return bool(folder) and any(Path(folder).glob(f"*.{self.function.__name__}-*.nbi"))

    def announce(self) -> None:
        """Say on standard error, once, that kernels are being compiled, why, and how to avoid it."""
        global _announced
        if not _announced and not self.is_cached:
            _announced = True
            reason = kernel_library().reason or f"{self.function.__name__} is not in the library"
            print(f"{COMPILING}: {reason}. {AVOIDED}", file=sys.stderr, flush=True)


_announced = False


def kernel(function: Function) -> Function:
    """Declare a kernel that other kernels call."""
    return Kernel(function, inline=False, exported=False)  # type: ignore[return-value]


def inlined(function: Function) -> Function:
    """Declare a kernel that is inlined into its callers: for a step of a loop so hot that a call costs too much."""
    return Kernel(function, inline=True, exported=False)  # type: ignore[return-value]


def exported(function: Function) -> Function:
    """Declare a kernel that Python calls; its annotations are its types, see ``signatures``."""
    made = EXPORTED[symbol_of(function)] = Kernel(function, inline=False, exported=True)
    return made  # type: ignore[return-value]


def _call_compiled(dispatcher: Any, name: str, signature: Signature, *arguments: Any) -> Any:
    """Call a kernel that numba compiles, with arguments of the types of its signature and no others."""
    checked = []
    for kind, argument in zip(signature.arguments, arguments, strict=True):
        if isinstance(kind, ArrayType):
            check_array(argument, kind, name)
            checked.append(argument if argument.flags.writeable else _writeable(argument))
        else:
            checked.append(kind(argument))
    return dispatcher(*checked)


def _writeable(array: Any) -> Any:
    """Return a view of an array that numba does not know as read-only: it would compile the kernel once more."""
    memory = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return np.ndarray(array.shape, array.dtype, memory)


def _compiled(function: Any, inline: bool) -> Any:
    """Make numba's dispatcher of ``function``; it compiles when it is called."""
    with package_for(f"no compiled kernels fit this machine ({kernel_library().reason}): compiling them"):
        import numba  # Lazy: start-up (see above), optional dependency.

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


class Intrinsic:
    """An operation of kernels on memory or bits, given to numba as LLVM code when a kernel that uses it is compiled."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target  # Lazy: start-up

        context = cpu_target.typing_context
        with _lock:
            if self._made is None:
                self._made = self._make()
                context.refresh()
        return context.resolve_value_type(self._made)


def _load(bits: int, *, swap: bool = False, signed: bool = False) -> Any:
    """Make an intrinsic ``load(address)`` that reads an integer of ``bits``, aligned or not.

    Narrow integers are returned as int64, so that they mix with other int64s; unsigned 64 bits as uint64.
    """

    def make() -> Any:
        # Lazy: start-up (numba is imported where it compiles)
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

    return Intrinsic(make)


def _reinterpret(bits: int) -> Any:
    """Make an intrinsic ``number(value)`` that takes the low ``bits`` of value as an IEEE 754 number, as float64."""

    def make() -> Any:
        # Lazy: start-up (numba is imported where it compiles)
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

    return Intrinsic(make)


def _store(bits: int) -> Any:
    """Make an intrinsic ``store(address, value)`` of the low ``bits`` of value: native byte order, aligned or not."""

    def make() -> Any:
        # Lazy: start-up (numba is imported where it compiles)
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

    return Intrinsic(make)


def _crc32c_word() -> Any:
    """Make an intrinsic ``crc32c_word(crc, word)``: CRC-32C of eight more bytes, by an instruction of x86-64-v2."""

    def make() -> Any:
        # Lazy: start-up (numba is imported where it compiles)
        from llvmlite import ir
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        def typing(_context: Any, crc: Any, word: Any) -> Any:
            def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
                long = ir.IntType(64)
                kind = ir.FunctionType(long, [long, long])
                function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse42.crc32.64.64")
                return builder.call(function, args)

            return types.int64(types.int64, types.int64), generate

        return intrinsic(typing)

    return Intrinsic(make)


crc32c_word = _crc32c_word()
"""Only for code that runs where ``kernel_library.has_crc32c`` is true."""

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
    if n >= 8:
        k = 0
        while k + 8 <= n:
            store_64(target + k, np.int64(load_le64(source + k)))
            k += 8
        if k < n:
            # The last eight bytes, some of them a second time: faster than one by one.
            store_64(target + n - 8, np.int64(load_le64(source + n - 8)))
    elif n >= 4:
        store_32(target, np.int64(load_le32(source)))
        store_32(target + n - 4, np.int64(load_le32(source + n - 4)))
    else:
        for k in range(n):
            store_8(target + k, np.int64(load_u8(source + k)))
