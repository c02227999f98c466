"""Find all exported kernels, and compile them with numba ahead of their first call."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stateproc.codec.native import jit
from stateproc.codec.native.cache import declares_kernels
from stateproc.codec.native.jit import ArrayType
from stateproc.codec.native.library import PACKAGE
from stateproc.errors import package_for


def kernel_modules() -> dict[str, str]:
    """Return the modules with kernels or their constants: file, relative to the package → name of the module."""
    found = {}
    # Followed links: in a checkout, readers and writers are links to folders beside the package.
    for folder, _, names in os.walk(PACKAGE, followlinks=True):
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            file = path.relative_to(PACKAGE).as_posix()
            if declares_kernels(path.read_bytes()) or file == "codec/ops.py":
                found[file] = f"{PACKAGE.name}.{file.removesuffix('.py').replace('/', '.')}"
    return dict(sorted(found.items()))


def exported_kernels() -> dict[str, jit.Kernel]:
    """Import all modules with kernels, and return the exported kernels by symbol, in order.

    Modules are left out that need a package which is not installed, such as pyspark.
    """
    for module in kernel_modules().values():
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] == PACKAGE.name:
                raise
    return {symbol: kernel for symbol, kernel in sorted(jit.EXPORTED.items()) if _is_own(kernel)}


def _is_own(kernel: jit.Kernel) -> bool:
    return kernel.function.__module__.startswith(f"{PACKAGE.name}.")


def compile_with_numba() -> Iterator[str]:
    """Compile all exported kernels, so that they are in numba's cache; yield the name of each one when it is done."""
    with package_for("compiling kernels"):
        import numba  # Lazy: start-up (of the command line), optional dependency.

    def numba_type(kind: Any) -> Any:
        if isinstance(kind, ArrayType):
            return numba.types.Array(numba.from_dtype(np.dtype(kind.dtype)), kind.ndim, "C")
        return numba.types.boolean if kind is bool else numba.types.int64

    for symbol, kernel in exported_kernels().items():
        kernel.dispatcher.compile(tuple(map(numba_type, kernel.signature.arguments)))
        yield symbol
