"""The change feed of a state: an object like a state, whose rows are changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.catalog.entries import iso_time
from stateproc.diff.change_rows import CHANGE_TYPE, DELETE, INSERT, UPDATE_AFTER
from stateproc.diff.common_schema import RowForm, common_schema
from stateproc.diff.key_group_units import UNIT_BYTES, UNITS_PER_THREAD
from stateproc.errors import InvalidOption
from stateproc.feed.commits import FeedCommit
from stateproc.feed.feed_rows import COMMIT_VERSION, feed_schema
from stateproc.feed.feed_step import FeedStep
from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short, type_tree
from stateproc.html.units import counted
from stateproc.model.state import Advance, FilteredScan, State
from stateproc.readers.splits import ScanRequest, Split
from stateproc.storage.uris import basename

if TYPE_CHECKING:
    from typing_extensions import Self

_SMALLEST_SPLIT = 2 << 20


@dataclass(frozen=True)
class CommitChanges:
    """How many rows a commit changed.

    Attributes:
        commit: The commit.
        inserted: Rows that it added.
        updated: Rows whose values it changed.
        deleted: Rows that it removed.
    """

    commit: FeedCommit
    inserted: int
    updated: int
    deleted: int


class StateFeed(State):
    """What one or more commits changed in a state.

    Rows have the columns of the state, maps one row per entry, and then ``_change_type`` (insert, update_preimage,
    update_postimage, delete), ``_commit_version`` (the checkpoint id) and ``_commit_timestamp``. They come commit after
    commit. Everything that can be asked of a state can be asked of its feed: ``to_arrow``, ``batches``, ``where=`` ….

    Attributes:
        steps: What each commit changed.
        form: What the rows are.
    """

    def __init__(self, like: State, steps: Sequence[FeedStep], form: RowForm) -> None:
        views = [view for step in steps for view in step.views] or [like]
        operator = replace(views[-1].operator, max_parallelism=max(view.operator.max_parallelism for view in views))
        super().__init__(operator, like.name, "changes", like.distribution)
        self.steps, self.form = tuple(steps), form
        self._like = like
        self.key_type, self.namespace_type, self.value_type = like.key_type, like.namespace_type, like.value_type
        self.ttl = like.ttl

    @property
    def commits(self) -> tuple[FeedCommit, ...]:
        """The commits whose changes these are."""
        return tuple(step.commit for step in self.steps)

    @cached_property
    def _columns(self) -> pa.Schema:
        found = [step.columns for step in self.steps]
        schemas = [columns for columns in found if columns is not None]
        if not schemas:
            empty = FeedStep(None, self._like, FeedCommit(0, None, ""), self.form).columns
            schemas = [] if empty is None else [empty]
        columns = reduce(lambda one, two: common_schema([one, two]), schemas)
        if self._like.kind not in ("map", "broadcast"):
            return columns
        return pa.schema([field.with_name("map_value") if field.name == "value" else field for field in columns])

    def schema(self, *, flatten: bool = False) -> pa.Schema:
        if flatten and self._like.kind not in ("map", "list"):
            raise InvalidOption(
                f"a {self._like.kind} state cannot be flattened", advice="leave the option flatten away"
            )
        if flatten and self._like.kind == "list" and not self.form.list_elements:
            raise InvalidOption(
                "lists of a change feed are flattened by another option", advice="give list_changes='appended'"
            )
        with self._placed():
            return feed_schema(self._columns)

    def plan_splits(self, request: ScanRequest) -> list[Split]:
        schema = self.schema(flatten=request.flatten)
        return [split for step in self.steps for split in step.splits(schema, request)]

    def counts(
        self,
        *,
        where: str | None = None,
        threads: int | None = None,
        planned: Callable[[int], Advance] = lambda _: lambda _: None,
    ) -> tuple[CommitChanges, ...]:
        """Read all changes, and return how many rows each commit changed.

        Args:
            where: Only rows for which a condition is true, as of ``batches``.
            threads: The number of threads that read.
            planned: Called once with the bytes that will be read; returns a function to call with those that were.

        Raises:
            SnapshotError: As ``batches``.
        """
        kinds = (INSERT, UPDATE_AFTER, DELETE)
        found = {step.commit.version: dict.fromkeys(kinds, 0) for step in self.steps}
        scan = FilteredScan(self, where, [CHANGE_TYPE, COMMIT_VERSION], threads=threads)
        for batch in scan.batches(planned(sum(split.bytes for split in scan.splits)), at_once=True):
            if not len(batch):
                continue
            # The rows of a batch are those of one commit.
            counted = found[batch.column(COMMIT_VERSION)[0].as_py()]
            # Comparing with a str would import pandas, if that is installed: 0.3 s and 25 MB.
            for item in batch.column(CHANGE_TYPE).value_counts().to_pylist():
                if item["values"] in counted:
                    counted[item["values"]] += item["counts"]
        return tuple(CommitChanges(step.commit, *found[step.commit.version].values()) for step in self.steps)

    def key_groups_of(self, keys: Sequence[Any]) -> set[int] | None:
        found: set[int] = set()
        for view in self._views:
            own = view.key_groups_of(keys)
            if own is None:
                return None
            found |= own
        return found

    def with_temporal(self, temporal: str) -> Self:
        twin = copy.copy(self)
        twin.__dict__.pop("_columns", None)
        twin.operator = replace(self.operator, options=replace(self.operator.options, temporal=temporal))
        twin.form = replace(self.form, temporal=temporal)
        twin.steps = tuple(FeedStep(step.left, step.right, step.commit, twin.form) for step in self.steps)
        return twin

    @property
    def _views(self) -> list[State]:
        return [view for step in self.steps for view in step.views]

    @property
    def _stored_bytes(self) -> int | None:
        sizes = [view.stored_bytes for view in self._views]
        return sum(size for size in sizes if size is not None)

    def parallel_split_bytes(self, threads: int, limit: int) -> int:
        """Return the size with which each thread has some units of each step, as when snapshots are compared."""
        largest = max(self.steps, key=lambda step: step.stored_bytes, default=None)
        if largest is None or threads < 2:
            return limit
        if largest.reads_whole_files:
            return max(5 * largest.stored_bytes // (4 * threads), 1)
        return min(UNIT_BYTES, max(_SMALLEST_SPLIT, largest.stored_bytes // (UNITS_PER_THREAD * threads)))

    def _repr_html_(self) -> str:
        """Show the commits and the columns in a notebook."""
        # Lazy: start-up.

        return feed_card(self).html()

    def __repr__(self) -> str:
        versions = [str(commit.version) for commit in self.commits]
        shown = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}" if versions else "no commit"
        return f"<changes of state {self.name!r} of operator {self.operator.display!r}: {shown}>"


# Show a change feed as a card in notebooks. No state is read.


def feed_card(feed: StateFeed) -> Card:
    """Return a feed with its commits and the tree of its columns."""
    commits, problem = feed.commits, feed.problem
    omitted = len(commits) - MOST_ROWS
    return Card(
        title=short(feed.name),
        kind="changes of a state",
        facts=[("operator", short(feed.operator.display)), ("checkpoints", str(len(commits)))],
        problems=[] if problem is None else [str(problem)],
        heads=[Head("checkpoint", number=True), Head("snapshot"), Head("completed")],
        rows=[
            [
                CardCell(str(commit.version), strong=True),
                CardCell(short(basename(commit.path))),
                CardCell(short(iso_time(commit.timestamp))),
            ]
            for commit in commits[:MOST_ROWS]
        ],
        columns=() if problem is not None else type_tree(feed.schema()),
        notes=[f"and {counted(omitted, 'checkpoint')} more"] if omitted > 0 else [],
    )
