"""Parse Flink's configuration files as Flink does: ``config.yaml`` as YAML, ``flink-conf.yaml`` line by line.

org.apache.flink.configuration.GlobalConfiguration: since Flink 1.19 ``config.yaml`` is YAML 1.2 with nested or flat
keys; up to 1.20 ``flink-conf.yaml`` has a key, a colon and a space, and a value in each line.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption, Where

if TYPE_CHECKING:
    import yaml

CONFIG_NAME, LEGACY_NAME = "config.yaml", "flink-conf.yaml"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_MOST_KEYS = 10_000
_DEEPEST = 50


def parse_lines(text: str) -> dict[str, str]:
    """Parse ``flink-conf.yaml``.

    Everything after # is a comment, quotes belong to values, and of equal keys the last counts. Lines without a colon
    and a space are ignored, as Flink ignores them.
    """
    values = {}
    for line in io.StringIO(text, newline=None):
        key, separator, value = line.partition("#")[0].strip().partition(": ")
        if separator and key.strip() and value.strip():
            values[key.strip()] = value.strip()
    return values


def parse_yaml(text: str, file: str) -> dict[str, str]:
    """Parse ``config.yaml``; nested keys are joined by dots, lists become text such as ``[a, b]``, nulls are left out.

    Raises:
        InvalidOption: It is no YAML, not a mapping of one document, or has a key twice in one mapping.
    """
    import yaml  # Lazy: start-up.

    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InvalidOption(f"this is no YAML: {reason}", where=Where(file=file), advice=_ADVICE) from error
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise InvalidOption("this YAML contains no keys", where=Where(file=file), advice=_ADVICE)
    return dict(_Flattening(file).entries(root, "", 0))


_ADVICE = f"give Flink's {CONFIG_NAME} (Flink 1.19 and newer) or {LEGACY_NAME}, or the directory that contains it"


@dataclass
class _Flattening:
    """Joins nested keys by dots; counts them, because aliases can make a small file describe billions."""

    file: str
    visited: int = 0

    def entries(self, mapping: yaml.MappingNode, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
        import yaml

        seen: set[str] = set()
        for key_node, node in mapping.value:
            line = key_node.start_mark.line + 1
            self.visited += 1
            if self.visited > _MOST_KEYS or depth > _DEEPEST:
                raise self._refused("too many keys, or nested too deeply", line)
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._refused("a key that is no text", line)
            if key_node.value in seen:
                raise self._refused(f"the key {key_node.value} is there twice", line)
            seen.add(key_node.value)
            key = prefix + key_node.value
            if isinstance(node, yaml.MappingNode):
                yield from self.entries(node, key + ".", depth + 1)
            elif isinstance(node, yaml.SequenceNode):
                yield key, _list_text(node)
            elif node.style is not None or node.value not in _NULLS:
                yield key, node.value

    def _refused(self, what: str, line: int) -> InvalidOption:
        advice = f"Flink does not start with such a file: correct line {line}"
        return InvalidOption(f"{what}, line {line}", where=Where(file=self.file), advice=advice)


def _list_text(node: Any) -> str:
    """Return a list as text; lists within it are shown by dots only, no key of a state backend has any."""
    return "[" + ", ".join(item.value if isinstance(item.value, str) else "…" for item in node.value) + "]"
