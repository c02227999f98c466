"""``stateproc warmup``: have the compiled kernels ready before the first read, as in the image of a container."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from pathlib import Path

from stateproc.codec.native.cache import CACHE_DIR_VARIABLE, cache_folder
from stateproc.codec.native.library import PACKAGE, LibraryUnusable, kernel_library


def warmup_command(_arguments: Namespace) -> int:
    """Compile the kernels into the cache where the library with compiled kernels does not fit; return the status."""
    try:
        choice = kernel_library()
    except LibraryUnusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if choice.library is not None:
        print(f"kernels: {choice.library.path} is used; nothing is to be compiled")
        return 0
    folder = cache_folder(PACKAGE / "codec")
    if folder is None:
        print(f"error: no directory to cache kernels in; set {CACHE_DIR_VARIABLE} to one of your own", file=sys.stderr)
        return 1
    from stateproc.codec.native.exports import compile_with_numba  # Lazy: start-up

    print(f"kernels: no library ({choice.reason}); compiling with numba, about a minute", flush=True)
    started = time.monotonic()
    count = sum(1 for _ in compile_with_numba())
    print(f"{count} kernels compiled in {time.monotonic() - started:.0f} s, cached in {Path(folder).parent}")
    return 0
