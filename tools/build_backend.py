"""What pip calls to build: setuptools' backend, which is given what compiling kernels needs, where it can be had."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from tools.kernel_platforms import PLATFORMS, is_musl, this_platform

COMPILERS = (
    # Its last release for Macs with Intel's processors has no wheel for Python 3.14.
    "numba>=0.61,<0.70; python_version < '3.15' and (sys_platform != 'darwin' or platform_machine == 'arm64' "
    "or python_version < '3.14')",
    "ziglang>=0.16,<0.18",
)
IMPORTED = ("cramjam", "numpy", "pyarrow", "pyroaring", "xxhash")
"""What modules with kernels import: what is installed with the package anyway, of any release."""


def kernel_requirements() -> list[str]:
    """Return the packages that compile kernels; none, and a sentence, where there are no wheels of them."""
    if this_platform() in PLATFORMS and not is_musl():
        return [*COMPILERS, *IMPORTED]
    print(
        f"no kernel library is built for {this_platform()}{' with musl' * is_musl()}: install a wheel that has one, "
        "see docs/install.md",
        file=sys.stderr,
    )
    return []


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *kernel_requirements()]


def get_requires_for_build_editable(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    return [*build_meta.get_requires_for_build_editable(config_settings), *kernel_requirements()]


__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]
