"""Show a change feed as a card in notebooks. No state is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateproc.catalog.entries import iso_time
from stateproc.html.cards import MOST_ROWS, Card, CardCell, Head, short
from stateproc.html.type_tree import type_tree
from stateproc.html.units import counted
from stateproc.storage.filesystem import basename

if TYPE_CHECKING:
    from stateproc.change_feed.state_feed import StateFeed


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
