"""Libraries for every platform, of a small function instead of the kernels: built here, and inspected as wheels are."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateproc.codec.native.library import SOURCES_SYMBOL
from tools.check_wheels import WrongLibraryFile, check_library
from tools.kernel_library import CannotBuild, link_shared, linked
from tools.kernel_platforms import PLATFORMS

SUM = """
define i32 @sum(ptr %words) {
  call void @llvm.memset.p0.i64(ptr %words, i8 0, i64 4096, i1 false)
  ret i32 0
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""
"""So much memory is set by calling memset, which is in the library itself."""
SYMBOLS = {"sum", SOURCES_SYMBOL}


def _library(name: str, folder: Path) -> Path:
    platform = PLATFORMS[name]
    path = folder / "kernels.o"
    path.write_bytes(linked([SUM], ["sum"], "sources", platform))
    link_shared(path, folder / platform.library, platform)
    return folder / platform.library


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_library_is_of_its_platform_and_needs_no_other(name: str, tmp_path: Path) -> None:
    library = _library(name, tmp_path)
    found = check_library(library, PLATFORMS[name], SYMBOLS)
    assert (found.machine, found.exports, found.imports) == (name, SYMBOLS, frozenset())
    assert b"sources" in library.read_bytes()
    other = next(platform for platform in PLATFORMS.values() if platform.name != name)
    with pytest.raises(WrongLibraryFile, match=f" is for {name}, not for {other.name}"):
        check_library(library, other, SYMBOLS)
    with pytest.raises(WrongLibraryFile, match=r"exports others: \['product'\]"):
        check_library(library, PLATFORMS[name], {*SYMBOLS, "product"})


@pytest.mark.parametrize("at", [0x20, 0x1000])
def test_a_changed_page_does_not_fit_the_signature_for_macos(at: int, tmp_path: Path) -> None:
    library = _library("darwin-aarch64", tmp_path)
    content = bytearray(library.read_bytes())
    content[at] ^= 1
    library.write_bytes(content)
    with pytest.raises(WrongLibraryFile, match="does not fit the code signature"):
        check_library(library, PLATFORMS["darwin-aarch64"], SYMBOLS)


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernels.so"
    path.write_bytes(b"no library")
    with pytest.raises(WrongLibraryFile, match="is no library"):
        check_library(path, PLATFORMS["linux-x86_64"], SYMBOLS)


def test_kernels_that_need_another_function_are_not_linked() -> None:
    module = """
        declare double @exp(double)
        define double @sum(double %x) {
          %y = call double @exp(double %x)
          ret double %y
        }
    """
    with pytest.raises(CannotBuild, match="the kernels need exp: functions that are not in the library itself"):
        linked([module], ["sum"], "sources", PLATFORMS["linux-x86_64"])
