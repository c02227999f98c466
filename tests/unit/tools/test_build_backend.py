"""What pip is asked for when it builds, by platform."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from tests.helpers.paths import ROOT
from tools import build_backend
from tools.newest_versions import requirements


@pytest.mark.parametrize(
    ("system", "machine", "soabi", "expected"),
    [
        ("linux", "x86_64", "cpython-311-x86_64-linux-gnu", True),
        ("linux", "aarch64", "cpython-311-aarch64-linux-gnu", True),
        ("darwin", "arm64", "cpython-311-darwin", True),
        ("win32", "AMD64", "cp311-win_amd64", True),
        ("linux", "x86_64", "cpython-311-x86_64-linux-musl", False),
        ("linux", "riscv64", "cpython-311-riscv64-linux-gnu", False),
        ("freebsd14", "amd64", "cpython-311", False),
    ],
)
def test_numba_and_the_linker_are_required_where_there_are_wheels_of_them(
    system: str,
    machine: str,
    soabi: str,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("sysconfig.get_config_var", {"SOABI": soabi}.get)
    names = {Requirement(item).name for item in build_backend.kernel_requirements()}
    assert names == ({"numba", "ziglang", *build_backend.IMPORTED} if expected else set())
    assert ("install a wheel that has one, see docs/install.md" in capsys.readouterr().err) != expected


def test_bounds_are_those_of_the_project() -> None:
    known = {item.name: item.specifier for item in requirements((ROOT / "pyproject.toml").read_text("utf-8"))}
    for requirement in map(Requirement, build_backend.COMPILERS):
        assert requirement.specifier == known[requirement.name]
    assert set(build_backend.IMPORTED) <= known.keys()
