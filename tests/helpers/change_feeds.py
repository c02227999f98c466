"""Apply change feeds to rows, as whoever keeps a copy of a state does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from stateproc.diff.change_rows import CHANGE_TYPE, UNIDENTIFYING
from stateproc.feed.feed_rows import CHANGE_FIELDS, COMMIT_VERSION
from stateproc.model.operator_state import opened_state
from stateproc.model.state import State
from tests.helpers.paths import FIXTURES

REMOVING = ("delete", "update_preimage")
_NOT_COMPARED = (*UNIDENTIFYING, *(field.name for field in CHANGE_FIELDS))


def rows_of(state: State | None, *, elements: bool = False, times: bool = False) -> Counter[str]:
    """Return the rows of a state as a feed has them: maps, and lists on request, one row per entry."""
    if state is None:
        return Counter()
    state = opened_state(state)
    flatten = state.distribution == "keyed" and (state.kind == "map" or (elements and state.kind == "list"))
    return Counter(_text(row, times) for row in state.to_arrow(flatten=flatten).to_pylist())


def apply_feed(rows: Counter[str], feed: pa.Table, *, times: bool = False) -> Counter[str]:
    """Return the rows after the changes of a feed, commit after commit.

    Args:
        rows: The rows before, as of `rows_of`.
        feed: The feed.
        times: Whether times of last access are compared.
    """
    found = Counter(rows)
    changes = feed.to_pylist()
    for version in sorted({change[COMMIT_VERSION] for change in changes}):
        own = [change for change in changes if change[COMMIT_VERSION] == version]
        removed = Counter(_text(change, times) for change in own if change[CHANGE_TYPE] in REMOVING)
        added = Counter(_text(change, times) for change in own if change[CHANGE_TYPE] not in REMOVING)
        assert removed <= found, f"rows are removed that are not there: {list(removed - found)[:3]}"
        found = found - removed + added
    return found


def change_types(feed: pa.Table) -> dict[str, int]:
    """Return how many rows of each type a feed has."""
    return dict(Counter(feed.column(CHANGE_TYPE).to_pylist()))


def _text(row: dict[str, Any], times: bool) -> str:
    skipped = _NOT_COMPARED if times else (*_NOT_COMPARED, "last_access")
    return repr([(name, _plain(value)) for name, value in row.items() if name not in skipped])


def _plain(value: Any) -> Any:
    """Return a value with the entries of maps sorted, whose order means nothing."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return _sorted([_plain(item) for item in value])
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _sorted(items: list[Any]) -> list[Any]:
    is_map = bool(items) and all(isinstance(item, tuple) for item in items)
    return sorted(items, key=repr) if is_map else items


def chains() -> list[Path]:
    """Return all chains of snapshots, by release."""
    return sorted(
        (path.parent for path in FIXTURES.glob("*/chain-*/manifest.json")), key=lambda path: _release(path.parent)
    )


def newest_chains() -> list[Path]:
    """Return each chain of snapshots as the newest release wrote it; others are read and compared elsewhere."""
    return sorted({path.name: path for path in chains()}.values())


def _release(folder: Path) -> list[int]:
    return [int(part) for part in folder.name.split(".")]


def pairs_in(chain: Iterable[Any], extra: Iterable[tuple[int, int]] = ()) -> list[tuple[Any, Any]]:
    """Return neighbours of a chain, its first and last, and other pairs by position."""
    items = list(chain)
    return [*pairwise(items), (items[0], items[-1]), *((items[one], items[two]) for one, two in extra)]
