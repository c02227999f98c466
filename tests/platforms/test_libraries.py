"""The kernels of wheels for other platforms, run where they can be: with musl's loader, Wine, and QEMU for ARM.

``make test-wheels`` builds the libraries and unpacks Debian's packages of musl and libc6 first. It needs wine64 and
qemu-user-static. There is no Python: a program in C calls the kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stateproc.codec import ops
from tests.helpers.paths import ROOT
from tools.kernel_platforms import PLATFORMS

PROGRAM = Path(__file__).with_name("run_library.c")
LIBRARIES = ROOT / ".cache" / "kernels"
FOREIGN = ROOT / ".cache" / "foreign"
ZIG = ROOT / ".cache" / "zig"
DECODING = (ops.F8, 0, ops.FLINK_STRING, 1, 2, 1, ops.ROW_END)
EMULATED = ("qemu-aarch64-static", "-L", str(FOREIGN / "arm64"))
RUNS = {
    "glibc": ("linux-x86_64", ("-target", "x86_64-linux-gnu.2.17"), ()),
    "musl": (
        "linux-x86_64",
        ("-target", "x86_64-linux-musl", "-dynamic"),
        (str(FOREIGN / "amd64" / "lib" / "ld-musl-x86_64.so.1"),),
    ),
    "arm-glibc": ("linux-aarch64", ("-target", "aarch64-linux-gnu.2.17"), EMULATED),
    "arm-musl": (
        "linux-aarch64",
        ("-target", "aarch64-linux-musl", "-dynamic", "-Wl,-dynamic-linker=/lib/ld-musl-aarch64.so.1"),
        EMULATED,
    ),
    "windows": ("win32-x86_64", ("-target", "x86_64-windows-gnu"), ("/usr/lib/wine/wine64",)),
}
"""For each kind of process: the platform of the library, how the program is compiled, and what runs it."""


@pytest.mark.parametrize("kind", RUNS)
def test_kernels_answer_as_they_must(kind: str, tmp_path: Path) -> None:
    platform, target, runner = RUNS[kind]
    program = tmp_path / "run_library.exe"
    caches = dict.fromkeys(("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"), str(ZIG))
    environment = {**os.environ, **caches, "WINEPREFIX": str(ROOT / ".cache" / "wine"), "WINEDEBUG": "-all"}
    compiling = [sys.executable, "-m", "ziglang", "cc", "-O1", *target, "-o", str(program), str(PROGRAM)]
    subprocess.run(compiling, check=True, env=environment)
    library = str(LIBRARIES / PLATFORMS[platform].library)
    command = [*runner, str(program), library, *map(str, DECODING)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    answers = done.stdout.replace("\r", "").splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(answers) == 5 and all(answer.endswith(": right") for answer in answers)
