"""The build of the kernel library: what it generates, and what it says where it cannot build."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateproc.codec.native.exports import kernel_modules
from stateproc.codec.native.file_names import library_name
from stateproc.codec.native.jit import ArrayType, Signature
from stateproc.codec.native.library import sources_text
from tools import kernel_library
from tools.kernel_library import CannotBuild, link_shared, main, wrapper_source
from tools.kernel_platforms import PLATFORMS, this_platform


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


@pytest.mark.parametrize(("more", "status"), [([], 0), (["--required"], 1)])
@pytest.mark.parametrize(
    ("package", "reason"),
    [
        ("numba", "numba is not installed where the library is built"),
        ("ziglang", "there is no linker: ziglang is not installed where the library is built"),
    ],
)
def test_without_a_compiler_or_linker_nothing_is_built(
    package: str,
    reason: str,
    more: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {"numba": object(), "ziglang": object(), package: None}
    monkeypatch.setattr("importlib.util.find_spec", found.get)
    arguments = ["--platform", "linux-aarch64", "--folder", str(tmp_path), *more]
    monkeypatch.setattr("sys.argv", ["kernel_library", *arguments])
    assert main() == status
    printed = capsys.readouterr()
    assert printed.out == "building the kernel library, about 40 s\n"
    assert printed.err == (
        f"no kernel library: {reason}; numba compiles kernels at their first call instead, for half a minute: "
        "see docs/install.md\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_linker_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tools.kernel_platforms.Platform.linker", lambda platform: ["false", platform.name])
    with pytest.raises(CannotBuild, match=r"^false linux-x86_64 -shared .* has failed: "):
        link_shared(tmp_path / "kernels.o", tmp_path / "kernels.so", PLATFORMS["linux-x86_64"])


def test_a_c_compiler_links_for_this_platform_where_zig_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("importlib.util.find_spec", {"ziglang": object()}.get)
    assert [platform.linker()[-1] for platform in PLATFORMS.values()] == [
        "x86_64-linux-gnu",
        "aarch64-linux-gnu",
        "aarch64-macos.11.0",
        "x86_64-macos.11.0",
        "x86_64-windows-gnu",
    ]
    monkeypatch.setattr("importlib.util.find_spec", {}.get)
    monkeypatch.setattr("shutil.which", {"cc": "/usr/bin/cc"}.get)
    linkers = {name: platform.linker() for name, platform in PLATFORMS.items()}
    assert linkers == {**dict.fromkeys(PLATFORMS), "linux-x86_64": ["/usr/bin/cc"]}


def test_other_platforms_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--required", "--platform", "linux-riscv64", "linux-aarch64", "--folder", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["kernel_library", *arguments])
    assert main() == 1
    assert f"there are libraries for {', '.join(PLATFORMS)}, not for linux-riscv64" in capsys.readouterr().err


def test_a_library_that_fits_the_sources_is_reused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built, folder = tmp_path / "built", tmp_path / "folder"
    built.mkdir()
    folder.mkdir()
    name = PLATFORMS["win32-x86_64"].library
    monkeypatch.setattr(kernel_library, "BUILT", built)
    monkeypatch.setattr(
        "sys.argv", ["kernel_library", "--reuse", "--platform", "win32-x86_64", "--folder", str(folder)]
    )
    monkeypatch.setattr(kernel_library, "build", lambda folder, platforms: (folder / name).write_bytes(b"built"))
    content = b"MZ\0" + sources_text(kernel_modules()).encode() + b"\0"
    (built / name).write_bytes(content)
    assert main() == 0
    assert (folder / name).read_bytes() == content
    assert capsys.readouterr().out == ""
    (built / name).write_bytes(content.replace(b"kernels.py", b"kernel5.py"))
    (folder / name).unlink()
    assert main() == 0
    assert (folder / name).read_bytes() == b"built"


def test_names_of_platforms_and_libraries() -> None:
    assert {platform.name: platform.library for platform in PLATFORMS.values()} == {
        "linux-x86_64": "kernels-linux-x86_64.so",
        "linux-aarch64": "kernels-linux-aarch64.so",
        "darwin-aarch64": "kernels-darwin-aarch64.dylib",
        "darwin-x86_64": "kernels-darwin-x86_64.dylib",
        "win32-x86_64": "kernels-win32-x86_64.dll",
    }


@pytest.mark.parametrize(
    ("system", "machine", "platform"),
    [
        ("win32", "AMD64", "win32-x86_64"),
        ("darwin", "arm64", "darwin-aarch64"),
        ("darwin", "x86_64", "darwin-x86_64"),
        ("linux", "aarch64", "linux-aarch64"),
        ("linux", "riscv64", "linux-riscv64"),
    ],
)
def test_this_platform(system: str, machine: str, platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert this_platform() == platform
    assert library_name() == (PLATFORMS[platform].library if platform in PLATFORMS else "kernels-linux-riscv64.so")
