"""Arguments of the command line: names from the option table, former names, and start-up without heavy imports."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction

import pytest

from stateproc.cli.app import command_parser, main
from stateproc.cli.arguments import option_values
from stateproc.options import FEED_OPTIONS, OPEN_OPTIONS, OPTIONS, PATH, Interface, OptionDefinition
from tests.helpers.paths import FIXTURES

DEMO = str(FIXTURES / "1.20/demo/snapshot")
CLI_OPTIONS = [option for option in OPTIONS if Interface.CLI in option.interfaces and option is not PATH]


def commands(named: str | None = None) -> dict[str, ArgumentParser]:
    return next(action for action in command_parser(named)._actions if isinstance(action, _SubParsersAction)).choices


def command_with(option: OptionDefinition) -> ArgumentParser:
    return commands()["changes" if option in FEED_OPTIONS else "read"]


def value_for(option: OptionDefinition) -> list[str]:
    if option.type is bool:
        return []
    return [option.choices[0] if option.choices else "a=b" if option.type is dict else "0" * 32]


@pytest.mark.parametrize("option", CLI_OPTIONS, ids=lambda option: option.name)
def test_every_option_of_the_table_is_an_argument(option: OptionDefinition) -> None:
    command = command_with(option)
    for flag in (*option.cli_names, option.flag):
        assert flag in command.format_help()
        parsed = command.parse_args(["path", flag, *value_for(option)])
        assert getattr(parsed, option.name) is not None


@pytest.mark.parametrize("option", CLI_OPTIONS, ids=lambda option: option.name)
def test_former_names_are_accepted_and_not_shown(option: OptionDefinition) -> None:
    read = command_with(option)
    for alias in option.cli_aliases:
        assert alias not in read.format_help().replace(option.flag, "")
        given = read.parse_args(["path", alias, *value_for(option)])
        assert vars(given) == vars(read.parse_args(["path", option.flag, *value_for(option)]))


def test_a_named_command_is_the_only_one_that_is_built() -> None:
    for name, command in commands().items():
        built = commands(name)
        assert list(built) == [name]
        assert built[name].format_help() == command.format_help()
    assert commands("no-command").keys() == commands("--help").keys() == commands().keys()


@pytest.mark.parametrize("command", ["inspect", "read", "offsets"])
def test_every_command_opens_snapshots_with_the_same_options(command: str) -> None:
    shown = commands()[command].format_help()
    for option in OPEN_OPTIONS:
        if Interface.CLI in option.interfaces and option.name != "temporal":
            assert option.flag in shown


def test_the_command_line_has_no_options_of_other_interfaces() -> None:
    shown = commands()["read"].format_help()
    for option in OPTIONS:
        if Interface.CLI not in option.interfaces:
            assert f"{option.flag} " not in shown


def test_repeated_mappings_are_merged() -> None:
    given = ["path", "--path-mapping", "/a=/b", "--moved", "/date=1/=/date=2/", "--storage-options", "anon=true"]
    values = option_values(commands()["read"].parse_args(given), OPEN_OPTIONS)
    assert values["path_mapping"] == {"/a": "/b", "/date=1/": "/date=2/"}
    assert values["storage_options"] == {"anon": True}


def test_defaults_equal_those_of_the_option_table() -> None:
    parsed = commands()["read"].parse_args(["path"])
    assert option_values(parsed, OPEN_OPTIONS) == {option.name: option.default for option in OPEN_OPTIONS}
    assert option_values(Namespace(), OPEN_OPTIONS) == {option.name: option.default for option in OPEN_OPTIONS}
    assert commands()["read"].parse_args(["path", "--no-verify"]).verify is False


def test_path_mappings_may_contain_equals_signs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", DEMO, "--path-mapping", "s3://old/date=2024/=s3://new/date=2025/"]) == 0
    assert main(["inspect", DEMO, "--path-mapping", "a=b=c"]) == 2
    assert "--path-mapping a=b=c" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["-1", "many", "1.5", ""])
def test_an_invalid_limit_is_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["read", DEMO, "--uid", "orders-per-customer", "--state", "profile", "--limit", count])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert "argument --limit" in message and "0 or more" in message
    assert "_row_count" not in message


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], ["pyarrow", "numpy", "sqlglot", "rich", "fsspec"]),
        (["read", DEMO, "--uid", "orders-from-kafka", "--limit", "1"], ["sqlglot", "pyspark"]),
    ],
)
def test_a_command_imports_only_the_packages_that_it_needs(arguments: list[str], unneeded: list[str]) -> None:
    program = (
        "import sys\nfrom stateproc.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(' '.join(name for name in {unneeded} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr == ""
