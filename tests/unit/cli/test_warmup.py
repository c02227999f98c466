"""``stateproc warmup``, with the library and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stateproc.cli import main
from stateproc.codec.encoding.kernels import varint_sizes
from stateproc.codec.native import cache as kernel_cache
from stateproc.codec.native import exports
from stateproc.codec.native import library as kernel_library
from stateproc.codec.native.jit import Kernel
from tests.helpers.kernel_library import require_library


@pytest.fixture(autouse=True)
def _choose_anew() -> Iterator[None]:
    kernel_library.kernel_library.cache_clear()
    yield
    kernel_library.kernel_library.cache_clear()


def test_with_the_library_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATEPROC_KERNELS", require_library()["STATEPROC_KERNELS"])
    assert main(["warmup"]) == 0
    path = kernel_library.PACKAGE / "codec" / kernel_library.library_name()
    assert capsys.readouterr().out == f"kernels: {path} is used; nothing is to be compiled\n"


@pytest.mark.exhaustive
def test_without_it_kernels_are_compiled_into_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = Kernel(varint_sizes.function, inline=False, exported=True)  # type: ignore[attr-defined]
    monkeypatch.setattr(exports, "exported_kernels", lambda: {"varint_sizes": kernel})
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setattr(kernel_cache, "_cache_root", lambda: tmp_path / "cache")
    monkeypatch.setenv("STATEPROC_KERNELS", "numba")
    assert main(["warmup"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "kernels: no library (STATEPROC_KERNELS=numba); compiling with numba, about a minute"
    assert printed[1].startswith("1 kernels compiled in ") and printed[1].endswith(f" s, cached in {tmp_path}/cache")
    assert len(list((tmp_path / "cache").rglob("*.varint_sizes-*.nbi"))) == 1


def test_without_a_cache_it_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("STATEPROC_KERNELS", "numba")
    monkeypatch.setattr(kernel_cache, "_cache_root", lambda: None)
    assert main(["warmup"]) == 1
    message = "error: no directory to cache kernels in; set STATEPROC_CACHE_DIR to one of your own\n"
    assert capsys.readouterr().err == message


def test_an_unknown_choice_of_kernels_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATEPROC_KERNELS", "fast")
    assert main(["warmup"]) == 1
    assert capsys.readouterr().err == "error: STATEPROC_KERNELS is 'fast'; it is numba, library, or not set\n"
