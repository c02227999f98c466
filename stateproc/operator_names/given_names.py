"""Collect the uids and names that a user gives, and name the operators of a snapshot by them.

Names are listed, one per line of a file, or in the JSON of a job's plan.
"""

from __future__ import annotations

import html
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from stateproc.errors import InvalidOption, UnmatchedUidWarning
from stateproc.html.units import some_of
from stateproc.keygroups.operator_ids import operator_id
from stateproc.metadata import OperatorEntry
from stateproc.operator_names.uid_hashes import TRANSFORMATIONS, sink_uids, templates_of_node
from stateproc.storage.store import StorePath

FILE_MARK = "@"
"""Begins the path of a file with uids."""
_MAX_FILE = 256 << 20
_MAX_UID = 1_000
"""Characters; longer strings of a plan are descriptions."""
_ID = re.compile(r"[0-9a-f]{32}")
_NODE_TYPE = re.compile(r"stream-exec-([a-z-]+)_(\d{1,4})")
_NAME_KEYS = frozenset({"uid", "id", "name", "operatorname", "operatoruid", "operatorid", "title", "description"})
_UID_FORMAT = "table.exec.uid.format"
_EDGE = re.compile(r"<br\s*/?>|\s->\s|\n")
"""What separates chained operators in the description of a vertex."""


@dataclass(frozen=True)
class GivenNames:
    """What the user gave to name operators.

    Attributes:
        uids: Uids by the operator id that follows from them, those of sinks' committers included.
        listed: Uids that were listed one by one, for which a warning is due if they match nothing.
        files: Paths of plans → the operator ids that follow from what is in them.
        vertices: Names of job vertices by their ids, which are ids of operators.
    """

    uids: Mapping[str, str] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
    files: Mapping[str, frozenset[str]] = field(default_factory=dict)
    vertices: Mapping[str, str] = field(default_factory=dict)

    def unmatched(self, ids: Iterable[str], names: Iterable[str | None]) -> list[str]:
        """Return the listed uids, and the files, that name none of these operators."""
        known, named = set(ids), set(names)
        missing = [
            uid
            for uid in self.listed
            if uid not in named and not known & {operator_id(item) for item in (uid, *sink_uids(uid))}
        ]
        return missing + [FILE_MARK + path for path, found in self.files.items() if not known & found]


def given_names(uids: Iterable[str], storage_options: Mapping[str, Any] | None = None) -> GivenNames:
    """Collect uids; each that begins with ``@`` is the path of a file.

    Raises:
        InvalidOption: A file cannot be read, is too large, or is neither text nor JSON.
    """
    listed: list[str] = []
    candidates: dict[str, str] = {}
    files: dict[str, frozenset[str]] = {}
    vertices: dict[str, str] = {}
    for item in uids:
        if not item.startswith(FILE_MARK):
            listed.append(item)
            continue
        path = item[len(FILE_MARK) :]
        content = _content(path, storage_options or {})
        if isinstance(content, str):
            listed += [line.strip() for line in content.splitlines() if line.strip()]
            continue
        names = {operator_id(name): name for name in dict.fromkeys(_plan_uids(content))}
        found = dict(_vertices(content))
        files[path] = frozenset((*names, *found))
        candidates.update(names)
        vertices.update(found)
    of_sinks = {operator_id(uid): uid for name in listed for uid in sink_uids(name)}
    exact = {operator_id(uid): uid for uid in listed}
    return GivenNames({**candidates, **of_sinks, **exact}, tuple(listed), files, vertices)


def _content(path: str, storage_options: Mapping[str, Any]) -> Any:
    """Return a file's text, or the value of its JSON."""
    try:
        if "://" in path:
            file = StorePath(path, storage_options)
            status = file.status()
            size = None if status is None else status.size
            data = b"" if size is None or size > _MAX_FILE else file.read_range(0, size)
        else:
            size = os.path.getsize(path)
            with open(path, "rb") as opened:
                data = opened.read(_MAX_FILE)
        if size is None:
            raise FileNotFoundError(2, "No such file")
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
        raise InvalidOption(f"the uids in {path} cannot be read: {reason}", advice=_ADVICE) from error
    if size > _MAX_FILE:
        raise InvalidOption(f"the uids in {path} cannot be read: it has {size} bytes", advice=_ADVICE)
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"the uids in {path} cannot be read: it is not JSON ({error})", advice=_ADVICE) from error


_ADVICE = "give a file with one uid per line, a compiled plan, or what /jobs/<id>/plan of Flink's REST API returns"


def _objects(content: Any) -> Iterator[Any]:
    """Return every object and list in a JSON value."""
    pending = [content]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending.extend(item.values())
        elif isinstance(item, list):
            yield item
            pending.extend(item)


def _plan_uids(content: Any) -> Iterator[str]:
    """Return every string that may be a uid, and the uids that the table planner generates for ExecNodes."""
    for item in _objects(content):
        if isinstance(item, list):
            yield from (value for value in item if isinstance(value, str) and len(value) <= _MAX_UID)
            continue
        for key, value in item.items():
            if isinstance(value, str) and len(value) <= _MAX_UID and key.replace("_", "").lower() in _NAME_KEYS:
                yield value
                yield from sink_uids(value)
        yield from _node_uids(item)


def _node_uids(node: Mapping[str, Any]) -> Iterator[str]:
    """Return the uids of an ExecNode of a compiled plan; none for other objects."""
    number, kind = node.get("id"), node.get("type")
    match = _NODE_TYPE.fullmatch(kind) if isinstance(kind, str) else None
    if match is None or not isinstance(number, int):
        return
    version = int(match[2])
    for before, after in templates_of_node(f"stream-exec-{match[1]}", version):
        yield f"{before}{number}{after}"
    configuration = node.get("configuration")
    form = configuration.get(_UID_FORMAT) if isinstance(configuration, dict) else None
    for transformation in TRANSFORMATIONS.get(match[1], ()):
        parts = {"id": number, "type": f"stream-exec-{match[1]}", "version": version, "transformation": transformation}
        for pattern in ("<id>_<transformation>", form):
            if isinstance(pattern, str) and len(pattern) <= _MAX_UID:
                uid = pattern
                for part, value in parts.items():
                    uid = uid.replace(f"<{part}>", str(value))
                yield uid
                yield from sink_uids(uid)


def _vertices(content: Any) -> Iterator[tuple[str, str]]:
    """Return ids and names of the vertices of a job's plan: of each its first operator, by which it is identified."""
    for item in _objects(content):
        if not isinstance(item, dict):
            continue
        identifier = item.get("id")
        name = next((item[key] for key in ("description", "name") if isinstance(item.get(key), str)), None)
        if name and isinstance(identifier, str) and _ID.fullmatch(identifier):
            first = _EDGE.split(html.unescape(name))[0].strip()
            if first:
                yield identifier, first[:_MAX_UID]


# Name the operators of one snapshot whose uids ``_metadata`` does not contain.

MAX_NODE_ID = 10_000
"""The largest id of an ExecNode whose uids are tried; a compiled plan with larger ids may be given as a file."""
_SHOWN = 5
_SNAPSHOTS_KEPT = 64
"""For how many sets of operators the search is remembered: a session opens the snapshots of a few jobs many times."""


class SnapshotNames:
    """Names of operators: uids that were given, those of Flink's table planner, and names of vertices in plans.

    Args:
        operators: The operators as ``_metadata`` lists them.
        given: What the user gave to name them.
    """

    def __init__(self, operators: Sequence[OperatorEntry], given: GivenNames) -> None:
        self._operators = tuple(operators)
        self._given = given

    def given_uid(self, operator_id: str) -> str | None:
        """Return the uid with this hash among the given ones."""
        return self._given.uids.get(operator_id)

    def planner_uid(self, operator_id: str) -> str | None:
        """Return the uid with this hash among those that Flink's table planner generates."""
        return self._planner_uids.get(operator_id)

    @cached_property
    def _planner_uids(self) -> dict[str, str]:
        """The uids of all operators that have none: the search takes as long for one operator as for all."""
        ids = [item.operator_id for item in self._operators if not item.uid and not self.given_uid(item.operator_id)]
        return _planner_uids_of(tuple(ids)) if ids else {}

    def vertex(self, operator_id: str) -> str | None:
        """Return the name of the operator's vertex in a given plan."""
        return self._given.vertices.get(operator_id)

    def warn_of_unmatched(self) -> None:
        """Issue one warning about given uids that match no operator."""
        names = [name for item in self._operators for name in (item.uid, item.name, item.operator_id)]
        missing = self._given.unmatched((item.operator_id for item in self._operators), names)
        if missing:
            shown = some_of([*map(repr, missing)], _SHOWN)
            warnings.warn(
                f"uids that match no operator: {shown}; they are compared letter by letter, as .uid(…) has them",
                UnmatchedUidWarning,
                stacklevel=2,
            )


@lru_cache(maxsize=_SNAPSHOTS_KEPT)
def _planner_uids_of(ids: tuple[str, ...]) -> dict[str, str]:
    """Return the uids that the planner generates for operators: operator id → uid. It takes 0.07 s of CPU."""
    # Lazy: start-up. Most commands show no operator without a uid.
    from stateproc.operator_names.uid_hashes import find_numbered_uids, uid_templates

    return find_numbered_uids(ids, uid_templates(), MAX_NODE_ID)
