"""What the library of a platform is called. The build imports this module before any package is installed."""

from __future__ import annotations

import platform
import sys

_MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}
"""What Windows and macOS call machines, by the names that Linux has for them."""
_SUFFIXES = {"win32": ".dll", "darwin": ".dylib"}


def machine_name() -> str:
    """Return the kind of this machine by the name that Linux has for it, such as ``aarch64``."""
    return _MACHINES.get(platform.machine(), platform.machine())


def library_name(system: str | None = None, machine: str | None = None) -> str:
    """Return the file name of the library of a system, as ``sys.platform`` names it, and a machine; None: this one."""
    system = system or sys.platform
    return f"kernels-{system}-{machine or machine_name()}{_SUFFIXES.get(system, '.so')}"
