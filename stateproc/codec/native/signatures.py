"""Types of a kernel that Python calls, from its annotations, and how its arguments are passed to machine code.

Arguments and results are passed in one block of 64-bit words: an integer, a truth value or an address takes one word,
an array the address of its first element and its shape. Results replace the arguments, from the first word on.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


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
