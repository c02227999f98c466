"""Whether tests have the compiled kernels of these sources."""

from __future__ import annotations

import importlib.util
import os

import pytest

from stateproc.codec.native.file_names import library_name
from stateproc.codec.native.library import KERNELS_VARIABLE, PACKAGE, LibraryUnusable, open_library


def require_library() -> dict[str, str]:
    """Return an environment in which kernels are those of the library.

    Only where there is no linker to build it is the test skipped; else the library is built by ``make setup``.
    """
    try:
        open_library(PACKAGE / "codec" / library_name())
    except LibraryUnusable as error:
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip(f"{error}, and there is no linker: package ziglang")
        pytest.fail(f"{error}: build it with `make kernels`")
    return {**os.environ, KERNELS_VARIABLE: "library"}
