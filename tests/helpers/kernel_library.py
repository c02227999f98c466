"""Whether tests have the compiled kernels of these sources."""

from __future__ import annotations

import os
import shutil

import pytest

from stateproc.codec.native.library import KERNELS_VARIABLE, PACKAGE, LibraryUnusable, library_name, open_library


def require_library() -> dict[str, str]:
    """Return an environment in which kernels are those of the library.

    Only where there is no C compiler to build it is the test skipped; else the library is built by ``make setup``.
    """
    try:
        open_library(PACKAGE / "codec" / library_name())
    except LibraryUnusable as error:
        if shutil.which("cc") is None:
            pytest.skip(f"{error}, and there is no C compiler")
        pytest.fail(f"{error}: build it with `make kernels`")
    return {**os.environ, KERNELS_VARIABLE: "library"}
