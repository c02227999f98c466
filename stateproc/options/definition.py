"""Describe one option in its three spellings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.options.parsers import one_of
from stateproc.redaction import MASK


class Interface(Enum):
    """The three interfaces in which options are specified."""

    PYTHON = "python"
    SPARK = "spark"
    CLI = "cli"


@dataclass(frozen=True)
class OptionDefinition:
    """One option.

    Attributes:
        name: The Python spelling, from which the others are derived.
        type: The type of its values: str, bool, int, tuple, frozenset, dict, or object where several are accepted.
        parse: Converts text to a value; raises ValueError with the expected form.
        help: One line for ``--help`` and the documentation.
        default: The value where the option is not given.
        choices: The accepted texts, if there is a fixed set.
        metavar: What ``--help`` shows for the value.
        interfaces: Where the option exists.
        spark_aliases: Further names in Spark.
        cli_names: Shorter flags, shown in ``--help`` besides the one that the name gives.
        cli_aliases: Earlier flags, accepted and not shown in ``--help``.
        repeatable: Whether the flag of a list may be given several times.
        secret: Whether values may contain credentials, which errors do not show.
    """

    name: str
    type: type
    parse: Callable[[str], Any]
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    interfaces: frozenset[Interface] = frozenset(Interface)
    spark_aliases: tuple[str, ...] = ()
    cli_names: tuple[str, ...] = ()
    cli_aliases: tuple[str, ...] = ()
    repeatable: bool = False
    secret: bool = False

    @property
    def spark_name(self) -> str:
        """The Spark spelling, e.g. ``pathMapping``."""
        first, *others = self.name.split("_")
        return first + "".join(word.capitalize() for word in others)

    @property
    def flag(self) -> str:
        """The command line's spelling, e.g. ``--path-mapping``."""
        return "--" + self.name.replace("_", "-")

    def spelled(self, interface: Interface) -> str:
        """The name of the option in ``interface``."""
        return {Interface.PYTHON: self.name, Interface.SPARK: self.spark_name, Interface.CLI: self.flag}[interface]

    def value(self, given: Any, interface: Interface = Interface.PYTHON) -> Any:
        """Convert text or a Python value to the option's value; None is the default.

        Raises:
            InvalidOption: The value does not fit; the message spells the option as ``interface`` does.
        """
        if given is None:
            return self.default
        try:
            return self.parse(given) if isinstance(given, str) else self._checked(given)
        except SnapshotError:
            raise
        except (ValueError, TypeError) as error:
            name = self.spelled(interface)
            value = MASK if self.secret else given
            shown = f"{name} {value}" if interface is Interface.CLI else f"option {name}={value!r}"
            raise InvalidOption(shown, advice=f"give {error}") from error

    def _checked(self, given: Any) -> Any:
        if self.type is object:
            return given
        if self.type in (tuple, frozenset):
            if not isinstance(given, Iterable):
                raise ValueError("names, comma separated or as a list" if self.type is tuple else "a set of numbers")
            return self.type(given)
        if self.type is dict and isinstance(given, Mapping):
            return dict(given)
        if self.type is bool and isinstance(given, bool):
            return given
        # The parser refuses the text of a value of another type, and names the expected form.
        return self.parse(str(given))


def choice_option(
    name: str, accepted: tuple[str, ...], text: str, interfaces: frozenset[Interface] = frozenset(Interface)
) -> OptionDefinition:
    """Define an option that accepts a few texts, of which the first is the default."""
    parse = one_of(accepted)
    return OptionDefinition(name, str, parse, text, accepted[0], choices=accepted, interfaces=interfaces)


# The text of options, which is what Spark passes to a data source.


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as text: text and paths as they are, other values as JSON, sets as lists; None is left out.

    Raises:
        InvalidOption: A value has no JSON.
    """
    return {name: _text(name, value) for name, value in options.items() if value is not None}


def _text(name: str, value: Any) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fsdecode(value)

    def plain(item: Any) -> Any:
        if isinstance(item, set | frozenset):
            return sorted(item, key=str)
        if isinstance(item, os.PathLike):
            return os.fsdecode(item)
        raise InvalidOption(
            f"option {name} cannot be of type {type(item).__name__}", advice="give text, numbers, lists or dicts"
        )

    return json.dumps(value, default=plain)
