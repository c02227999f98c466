"""Make change feeds: between two snapshots, or over the checkpoints below a root."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from stateproc.diff.common_schema import RowForm
from stateproc.diff.structure import check_names
from stateproc.errors import InvalidOption, NotFound
from stateproc.feed.commits import FeedCommit, commit_log, commit_of
from stateproc.feed.feed_rows import FeedQuery
from stateproc.feed.feed_step import FeedStep
from stateproc.feed.state_feed import StateFeed
from stateproc.metadata import OperatorEntry
from stateproc.model.operator import Operator
from stateproc.model.operator_state import opened_state
from stateproc.model.state import State
from stateproc.options import BY_NAME
from stateproc.snapshot.opening import open
from stateproc.snapshot.selection import StateSelection, select_operator, select_state, state_choice, state_option
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.layout import METADATA
from stateproc.storage.store import StorePath

# Find one state in several snapshots of a job.


def states_of(snapshots: Sequence[Snapshot], selection: StateSelection) -> list[State | None]:
    """Return the selected state in each snapshot, undecoded; None where a snapshot does not have it.

    Args:
        snapshots: Snapshots of one job, at least one.
        selection: An operator, by uid, uid hash or name; a state of it, which may be omitted if it has only one.

    Raises:
        NotFound: No snapshot has this operator or state; the error names those of the newest snapshot.
        InvalidOption: The selection is ambiguous, or names no single state.
        SnapshotError: A file that may declare the state cannot be read.
    """
    if selection.table is not None:
        raise InvalidOption("metadata tables have no change feed", advice="select a state")
    operators = _operators(snapshots, selection)
    present = [item for item in operators if item is not None]
    for one, two in pairwise(present):
        check_names(one, two)
    chosen = _with_state(present[-1], selection)
    found = [None if operator is None else _state(operator, chosen) for operator in operators]
    if not any(found):
        select_state(present[-1], chosen)  # raises NotFound
    return found


def check_same_job(snapshots: Sequence[Snapshot]) -> None:
    """Raise InvalidOption if two neighbours have no operator with state in common: they are of different jobs."""
    for one, two in pairwise(snapshots):
        pair = one.metadata.operators, two.metadata.operators
        stateful, every = (
            [{item.operator_id for item in items if keep(item)} for items in pair] for keep in (_has_state, bool)
        )
        if all(stateful) and stateful[0].isdisjoint(every[1]) and stateful[1].isdisjoint(every[0]):
            raise InvalidOption(
                f"{one.path} and {two.path} have no operator in common: they are of different jobs",
                advice="compare snapshots of one job; operators are matched by the hash of their uid, which must "
                "not change",
            )


def _has_state(operator: OperatorEntry) -> bool:
    """Whether an operator has state. Ids of others may be those of another job, as they follow from its graph."""
    return operator.coordinator is not None or any(
        item.managed_keyed or item.managed_operator or item.raw_keyed or item.raw_operator for item in operator.subtasks
    )


def _operators(snapshots: Sequence[Snapshot], selection: StateSelection) -> list[Operator | None]:
    """Return the operator in each snapshot. One that is selected by its name is the same by its id in all of them."""
    newest_first = list(reversed(snapshots))
    named: Operator | None = None
    for snapshot in newest_first:
        try:
            named = select_operator(snapshot, selection)
            break
        except NotFound:
            continue
    if named is None:
        select_operator(newest_first[0], selection)  # raises NotFound
        raise AssertionError
    return [_same_operator(snapshot, named) for snapshot in snapshots]


def _same_operator(snapshot: Snapshot, named: Operator) -> Operator | None:
    if all(item.operator_id != named.operator_id for item in snapshot.metadata.operators):
        return None
    return snapshot.operator(named.known_uid or named.operator_id)


def _with_state(operator: Operator, selection: StateSelection) -> StateSelection:
    """Return the selection with the only state of the operator, if it selects none."""
    if selection.state is not None or selection.operator_state is not None or selection.timers is not None:
        return selection
    states = operator.states
    if len(states) == 1:
        option, value = state_option(states[0])
        only: Any = {option: value}
        return replace(selection, namespace=None, **only)
    if not states and operator.problems:
        raise operator.problems[0]
    name = BY_NAME["state"].spelled(selection.interface)
    lines = "\n".join(f"      {state_choice(state, selection.interface)}" for state in states)
    raise InvalidOption(
        f"a change feed is one of a single state: {name} is missing for operator '{operator.display}'",
        advice=f"one of:\n{lines}" if lines else "the operator has no state",
    )


def _state(operator: Operator, selection: StateSelection) -> State | None:
    """Return the state; None if the operator does not have it. Raises SnapshotError if that cannot be known."""
    try:
        return select_state(operator, selection)
    except NotFound:
        if operator.problems:
            raise operator.problems[0] from None
        return None


# Open the snapshots below directories that the user names as those of a job's checkpoints and savepoints.


def open_below(roots: str | Sequence[str], path: str, opening: Mapping[str, Any]) -> Snapshot:
    """Open one of the snapshots below roots.

    Its files may be below any of them: a restored job shares files with the checkpoints and savepoints before it.

    Args:
        roots: The directories, or the only one.
        path: The snapshot.
        opening: Keyword arguments of `stateproc.open`.

    Raises:
        SnapshotError: It cannot be opened.
    """
    allowed = BY_NAME["allowed_roots"].value(opening.get("allowed_roots"))
    below = (roots,) if isinstance(roots, str) else tuple(roots)
    return open(path, **{**opening, "allowed_roots": (*allowed, *below)})


@dataclass(frozen=True)
class FeedSnapshots:
    """The snapshots of a feed, from the oldest to the newest.

    Attributes:
        commits: The commit of each.
        from_nothing: Whether everything in the first is inserted; otherwise changes begin after it.
    """

    snapshots: tuple[Snapshot, ...]
    commits: tuple[FeedCommit, ...]
    from_nothing: bool


def changes(
    old: str | os.PathLike[str] | Snapshot,
    new: str | os.PathLike[str] | Snapshot | None = None,
    uid: str | None = None,
    state: str | None = None,
    *,
    uid_hash: str | None = None,
    operator_state: str | None = None,
    timers: str | None = None,
    starting_checkpoint: int | None = None,
    ending_checkpoint: int | None = None,
    mode: str = "steps",
    list_changes: str = "whole",
    times: bool = False,
    raw: bool = False,
    **opening: Any,
) -> StateFeed:
    """Return what changed in a state between two snapshots, or over the checkpoints of a job.

    Args:
        old: The earlier snapshot: its path, or what `stateproc.open` returned. Or the directory of a job's checkpoints,
            or one above it, without ``new``. A snapshot without ``new``: everything in it is inserted.
        new: The later snapshot.
        uid: The operator, by uid, uid hash or name; not needed if only one has states.
        state: The state; not needed if the operator has only one.
        uid_hash: The operator, by its id.
        operator_state: A list, union or broadcast state, by name.
        timers: The operator's timers: event or processing.
        starting_checkpoint: Changes after the checkpoint of this id. Default: everything in the oldest one is inserted
            first.
        ending_checkpoint: Changes up to and including the checkpoint of this id; default the newest.
        mode: ``steps``: one checkpoint after another. ``net``: the first compared with the last.
        list_changes: ``whole``: a list is one value. ``appended``: each element of a list is a row of its own with its
            position, so that rows are inserted for elements that were appended.
        times: Whether times of last access (TTL) count as changes.
        raw: Source and sink states as their bytes.
        **opening: Options of `stateproc.open`, where paths are given.

    Returns:
        The feed: ``to_arrow()``, ``batches(where=…)``, ``head()`` … as a state has them.

    Raises:
        NotFound: No snapshot has the operator or state, or there is no completed checkpoint of an id.
        InvalidOption: An argument does not fit; the later snapshot is older; the snapshots are of different jobs.
        SnapshotError: A snapshot cannot be opened.
    """
    selection = StateSelection(
        uid=uid, uid_hash=uid_hash, state=state, operator_state=operator_state, timers=timers
    ).checked()
    query = FeedQuery(
        BY_NAME["starting_checkpoint"].value(starting_checkpoint),
        BY_NAME["ending_checkpoint"].value(ending_checkpoint),
        replace(BY_NAME["change_feed_mode"], name="mode").value(mode),
        BY_NAME["list_changes"].value(list_changes),
        BY_NAME["times"].value(times),
        BY_NAME["raw"].value(raw),
    )
    return open_feed(old, new, selection, query, opening)


def open_feed(
    old: str | os.PathLike[str] | Snapshot,
    new: str | os.PathLike[str] | Snapshot | None,
    selection: StateSelection,
    query: FeedQuery,
    opening: Mapping[str, Any],
) -> StateFeed:
    """Return the feed of parsed options; see `changes`."""
    if new is None and not isinstance(old, Snapshot) and not is_snapshot(os.fspath(old), opening):
        found = feed_of_root(os.fspath(old), query.starting_checkpoint, query.ending_checkpoint, query.mode, opening)
    elif query.starting_checkpoint is not None or query.ending_checkpoint is not None:
        raise InvalidOption(
            "checkpoint ids do not go with a snapshot", advice="give the directory that contains the checkpoints"
        )
    else:
        found = feed_of_snapshots(old, new, opening)
    return state_feed(found, selection, query.form)


def is_snapshot(path: str, opening: Mapping[str, Any]) -> bool:
    """Return whether a path is that of one snapshot, and not of a directory above checkpoints."""
    given = StorePath.of(path, BY_NAME["storage_options"].value(opening.get("storage_options")))
    return given.name == METADATA or (given / METADATA).exists(fresh=True)


def feed_of_snapshots(
    old: str | os.PathLike[str] | Snapshot | None, new: str | os.PathLike[str] | Snapshot | None, opening: Any
) -> FeedSnapshots:
    """Open two snapshots, or only one, in which everything is inserted.

    Raises:
        InvalidOption: The later one is older.
        SnapshotError: One cannot be opened.
    """
    given = [item for item in (old, new) if item is not None]
    snapshots = tuple(item if isinstance(item, Snapshot) else open(os.fspath(item), **opening) for item in given)
    commits = tuple(map(commit_of, snapshots))
    if commits[-1].version < commits[0].version:
        first, last = commits
        raise InvalidOption(
            f"the later snapshot {last.path} has the checkpoint id {last.version} and is older than {first.path} with "
            f"{first.version}",
            advice="exchange them",
        )
    return FeedSnapshots(snapshots, commits, len(snapshots) == 1)


def feed_of_root(
    roots: str | Sequence[str], starting: int | None, ending: int | None, mode: str, opening: Mapping[str, Any]
) -> FeedSnapshots:
    """Open the checkpoints of a range below roots; in mode ``net`` only the first and the last.

    Raises:
        NotFound: There is no completed checkpoint of an id.
        InvalidOption: The ending checkpoint is older, or the range is ambiguous.
        SnapshotError: One cannot be opened.
    """
    options = BY_NAME["storage_options"].value(opening.get("storage_options"))
    commits = commit_log(roots, storage_options=options).between(starting, ending)
    if mode == "net":
        commits = commits[-1:] if starting is None else (commits[0], *commits[1:][-1:])
    return FeedSnapshots(
        tuple(open_below(roots, commit.path, opening) for commit in commits), commits, from_nothing=starting is None
    )


def state_feed(found: FeedSnapshots, selection: StateSelection, form: RowForm) -> StateFeed:
    """Return the feed of a state. ``form``: what the rows are; how they show dates and times is that of the snapshots.

    Raises:
        NotFound: No snapshot has the operator or state.
        InvalidOption: The selection is ambiguous, or the snapshots are of different jobs.
        SnapshotError: A file that may declare the state cannot be read.
    """
    check_same_job(found.snapshots)
    states = states_of(found.snapshots, selection)
    like = [state for state in states if state is not None][-1]
    form = replace(form, temporal=like.operator.options.temporal, raw=form.raw or not _all_open(states))
    # Whether a source's state without elements has the columns of its connector is not known.
    states = [None if _is_empty(state) else state for state in states]
    pairs = list(zip(states, states[1:], found.commits[1:], strict=False))
    first: list[tuple[State | None, State | None, FeedCommit]] = (
        [(None, states[0], found.commits[0])] if found.from_nothing else []
    )
    return StateFeed(like, [FeedStep(*item, form) for item in (*first, *pairs)], form)


def _is_empty(state: State | None) -> bool:
    return state is not None and state.elements == 0


def _all_open(states: Iterable[State | None]) -> bool:
    """Whether all states with elements have the columns of a connector's format, or none of them."""
    known = {
        opened_state(state) is not state
        for state in states
        if state is not None and not state.is_keyed and not _is_empty(state)
    }
    return len(known) < 2
