"""Options: one name in three spellings, text and Python values, and errors in the spelling of the interface."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from stateproc.errors import InvalidOption
from stateproc.options import BY_NAME, OPEN_OPTIONS, OPTIONS, Interface, parse_options
from stateproc.snapshot.opening import open


def test_spellings() -> None:
    option = BY_NAME["path_mapping"]
    assert [option.spelled(interface) for interface in Interface] == ["path_mapping", "pathMapping", "--path-mapping"]


def test_every_name_is_unique_in_every_spelling() -> None:
    spark = [name.lower() for option in OPTIONS for name in (option.spark_name, *option.spark_aliases)]
    flags = [flag for option in OPTIONS for flag in (option.flag, *option.cli_aliases)]
    assert len(set(spark)) == len(spark)
    assert len(set(flags)) == len(flags)
    assert all(option.help for option in OPTIONS)


def test_open_has_the_options_of_the_option_table() -> None:
    assert set(open.__kwdefaults__) == {option.name for option in OPEN_OPTIONS}
    assert {name: value or None for name, value in open.__kwdefaults__.items()} == {
        option.name: option.default or None for option in OPEN_OPTIONS
    }


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("uids", "orders, customers", ("orders", "customers")),
        ("uids", ["orders"], ("orders",)),
        ("kryo", 5, 5),
        ("kryo", None, None),
        ("verify", False, False),
        ("verify", None, True),
        ("proto", "/types.desc", "/types.desc"),
        ("proto", b"\x0a\x00", b"\x0a\x00"),
        ("storage_options", "anon=true", {"anon": True}),
        ("storage_options", '{"key": "1"}', {"key": "1"}),
        ("path_mapping", {"a": "b"}, {"a": "b"}),
        ("path_mapping", "hdfs://old/=s3://new/", {"hdfs://old/": "s3://new/"}),
        ("path_mapping", "/data/dt=1/=/mnt/data/", {"/data/dt=1/": "/mnt/data/"}),
        ("path_mapping", '{"/dt=1/": "/dt=2/"}', {"/dt=1/": "/dt=2/"}),
    ],
)
def test_text_and_python_values(name: str, given: Any, value: Any) -> None:
    assert BY_NAME[name].value(given) == value


@pytest.mark.parametrize(
    ("name", "given", "interface", "message", "advice"),
    [
        ("kryo", 3, Interface.PYTHON, "option kryo=3", "give 2 (Flink 1.x) or 5 (Flink 2.x)"),
        ("kryo", True, Interface.PYTHON, "option kryo=True", "give 2 (Flink 1.x) or 5 (Flink 2.x)"),
        ("verify", 1, Interface.PYTHON, "option verify=1", "give true or false"),
        ("uids", 7, Interface.PYTHON, "option uids=7", "give names, comma separated or as a list"),
        ("temporal", "nanos", Interface.PYTHON, "option temporal='nanos'", "give one of micros, exact"),
        ("split_bytes", "x", Interface.SPARK, "option splitBytes='x'", "give a positive number of bytes"),
        ("path_mapping", "x", Interface.CLI, "--path-mapping x", "give OLD=NEW, or a JSON object"),
        ("path_mapping", "/a=/b=/c", Interface.CLI, "--path-mapping /a=/b=/c", "give OLD=NEW, or a JSON object"),
        ("storage_options", "anon", Interface.CLI, "--storage-options ***", "give NAME=VALUE, or a JSON object"),
    ],
)
def test_invalid_values_are_refused_in_the_spelling_of_the_interface(
    name: str, given: Any, interface: Interface, message: str, advice: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        BY_NAME[name].value(given, interface)
    assert caught.value.message == message
    assert (caught.value.advice or "").startswith(advice)


def test_spark_refuses_options_of_other_interfaces() -> None:
    assert parse_options({"keyGroups": "1"})["key_groups"] == {1}
    with pytest.raises(InvalidOption, match="no option 'threads'"):
        parse_options({"threads": "2"})


@pytest.mark.processes
def test_the_option_table_is_imported_without_arrow() -> None:
    program = "import sys, stateproc.options; print([m for m in ('pyarrow', 'numba', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
