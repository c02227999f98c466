"""The build of the kernel library: what it generates, and what it says where it cannot build."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateproc.codec.native.jit import ArrayType, Signature
from tools import kernel_library
from tools.kernel_library import CannotBuild, build, c_compiler, main, wrapper_source


def test_arguments_are_taken_from_words_and_results_stored_in_them() -> None:
    signature = Signature((int, ArrayType("int64", 2), bool, ArrayType("bool", 1)), (int, bool), True)
    assert wrapper_source(signature).splitlines() == [
        "def call_with_words(words):",
        "    a0 = load_i64(words + 0)",
        "    a1 = carray(pointer(load_i64(words + 8)), (load_i64(words + 16), load_i64(words + 24), ), np.int64)",
        "    a2 = load_i64(words + 32) != 0",
        "    a3 = carray(pointer(load_i64(words + 40)), (load_i64(words + 48), ), np.bool_)",
        "    results = kernel(a0, a1, a2, a3)",
        "    store_64(words + 0, np.int64(results[0]))",
        "    store_64(words + 8, np.int64(results[1]))",
        "    return 0",
    ]
    assert wrapper_source(Signature((int,), (), False)).splitlines()[1:] == [
        "    a0 = load_i64(words + 0)",
        "    kernel(a0)",
        "    return 0",
    ]


def test_the_compiler_is_cc_or_the_one_of_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for name in ("clang", "aarch64-linux-gnu-gcc"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert c_compiler("x86_64") == ["clang"]
    assert c_compiler("aarch64") == ["aarch64-linux-gnu-gcc"]
    monkeypatch.setenv("CC", f"{tmp_path}/clang -m64")
    assert c_compiler("x86_64") == [f"{tmp_path}/clang", "-m64"]
    assert c_compiler("aarch64") == ["aarch64-linux-gnu-gcc"]


@pytest.mark.parametrize(("more", "status"), [([], 0), (["--required"], 1)])
def test_without_a_compiler_nothing_is_built(
    more: list[str], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kernel_library", "--machine", "aarch64", "--folder", str(tmp_path), *more])
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert main() == status
    printed = capsys.readouterr()
    assert printed.out == "building the kernel library, about 40 s\n"
    assert printed.err == (
        "no kernel library: there is no C compiler for aarch64 (aarch64-linux-gnu-gcc); "
        "numba compiles kernels at their first call instead\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_linker_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_library, "c_compiler", lambda machine: ["false"])
    with pytest.raises(CannotBuild, match=r"^false -shared .* has failed: "):
        kernel_library.link_shared(tmp_path / "kernels.o", tmp_path / "kernels.so", "x86_64")


def test_other_machines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotBuild, match="for x86_64 and aarch64, not for linux riscv64"):
        build(tmp_path / "kernels.so", "riscv64")
