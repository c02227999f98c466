"""The platforms that a kernel library can be built for, on any of them: what LLVM, the linker and pip call each."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import sysconfig
from dataclasses import dataclass

from stateproc.codec.native.file_names import library_name, machine_name


@dataclass(frozen=True)
class Platform:
    """A system and a machine, by the names of ``stateproc.codec.native.file_names``.

    Attributes:
        triple: The target of LLVM, which decides on the format of the object file and on how functions are called.
        cpu: The oldest CPU that the library runs on.
        linker_target: The target of zig.
        linker_flags: What else the linker needs to know.
        wheel_tag: The platform of the wheel. The library calls no function, so that one serves every C library.
    """

    system: str
    machine: str
    triple: str
    cpu: str
    linker_target: str
    linker_flags: tuple[str, ...]
    wheel_tag: str

    @property
    def name(self) -> str:
        return f"{self.system}-{self.machine}"

    @property
    def library(self) -> str:
        return library_name(self.system, self.machine)

    def linker(self) -> list[str] | None:
        """Return the command of zig's linker, else of a C compiler for this very platform; None if there is neither."""
        if importlib.util.find_spec("ziglang"):
            return [sys.executable, "-m", "ziglang", "cc", "-target", self.linker_target]
        is_own = self.system == "linux" and self.name == this_platform()
        compiler = shutil.which("cc") if is_own else None
        return [compiler] if compiler else None


V2 = "x86-64-v2"
_MUSL_AND_GLIBC = "manylinux_2_17_{0}.musllinux_1_1_{0}"
_ELF = ("-Wl,-s", "-Wl,--build-id=none")
_MACOS = "11.0"

PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform(
            system="linux",
            machine="x86_64",
            triple="x86_64-unknown-linux-gnu",
            cpu=V2,
            linker_target="x86_64-linux-gnu",
            linker_flags=_ELF,
            wheel_tag=_MUSL_AND_GLIBC.format("x86_64"),
        ),
        Platform(
            system="linux",
            machine="aarch64",
            triple="aarch64-unknown-linux-gnu",
            cpu="generic",
            linker_target="aarch64-linux-gnu",
            linker_flags=_ELF,
            wheel_tag=_MUSL_AND_GLIBC.format("aarch64"),
        ),
        # The linker signs it: macOS on ARM loads no file without a signature, were it of nobody ("ad hoc").
        Platform(
            system="darwin",
            machine="aarch64",
            triple=f"arm64-apple-macosx{_MACOS}",
            cpu="apple-m1",
            linker_target=f"aarch64-macos.{_MACOS}",
            linker_flags=("-Wl,-s",),
            wheel_tag="macosx_11_0_arm64",
        ),
        Platform(
            system="darwin",
            machine="x86_64",
            triple=f"x86_64-apple-macosx{_MACOS}",
            cpu=V2,
            linker_target=f"x86_64-macos.{_MACOS}",
            linker_flags=("-Wl,-s",),
            wheel_tag="macosx_11_0_x86_64",
        ),
        Platform(
            system="win32",
            machine="x86_64",
            triple="x86_64-w64-windows-gnu",
            cpu=V2,
            linker_target="x86_64-windows-gnu",
            linker_flags=("-Wl,-s", "-Wl,--no-entry"),
            wheel_tag="win_amd64",
        ),
    )
}


def this_platform() -> str:
    """Return the name of the platform that Python runs on, whether or not libraries can be built for it."""
    return f"{sys.platform}-{machine_name()}"


def is_musl() -> bool:
    """Whether this Python is one for musl: there libraries run, but numba has no wheels to build them with."""
    return "musl" in str(sysconfig.get_config_var("SOABI"))
