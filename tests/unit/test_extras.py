"""Every extra that an error names exists and installs the package, which a plain installation does not have."""

from __future__ import annotations

import sys
import threading

import pytest
from packaging.requirements import Requirement

import stateproc
from stateproc.cli.commands import demo
from stateproc.errors import EXTRAS, MissingPackage, package_for
from stateproc.filters import condition
from stateproc.writers.spark import execution
from tests.helpers.paths import DEMO, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("module", EXTRAS)
def test_the_extra_installs_the_package(module: str) -> None:
    package, extra = EXTRAS[module]
    names = [Requirement(text).name for text in PROJECT["optional-dependencies"][extra]]
    assert package in names
    assert package not in [Requirement(text).name for text in PROJECT["dependencies"]]


@pytest.mark.parametrize("module", EXTRAS)
def test_an_absent_package_is_one_sentence_with_the_command(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra = EXTRAS[module]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackage) as caught, package_for("this"):
        __import__(module)
    assert caught.value.message == f"this needs the package {package}, which is not installed"
    assert caught.value.advice == f"pip install 'stateproc[{extra}]'"


def test_another_module_that_is_missing_is_no_package_of_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="none_of_ours"), package_for("this"):
        import none_of_ours  # noqa: F401


def test_a_condition_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr(condition, "_LOCAL", threading.local())
    state = stateproc.open(str(DEMO)).operator("orders-per-customer").state("profile")
    with pytest.raises(MissingPackage, match="a condition on rows needs the package duckdb"):
        state.to_arrow(where="key = 42")


def test_the_demo_shows_what_a_plain_installation_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    steps = [step.question for step in demo._steps()]
    assert 3 < len(steps) < len(demo.STEPS)


def test_writing_with_spark_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's mapInArrow asks for it; so the extra installs it, and where it is absent nothing is begun."""
    assert "stateproc[pandas]" in PROJECT["optional-dependencies"]["spark"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr(execution, "_check_release", lambda: None)
    with pytest.raises(MissingPackage, match="writing with Spark needs the package pandas, which is not installed"):
        execution.SparkEngine(None).check()
