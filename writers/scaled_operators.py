"""Scale operators: subtasks and key groups of the new savepoint, and which state is written anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stateproc.flink_versions import Release
from stateproc.metadata.snapshot import OperatorEntry
from stateproc.model.operator import Operator
from stateproc.model.raw_keyed import raw_keyed_parts
from stateproc.snapshot.snapshot import Snapshot
from stateproc.storage.store import StorePath
from stateproc.storage.uris import store_kind
from stateproc.writers.bootstrap.new_operator import NewOperator
from stateproc.writers.commit.commit import CommitHooks
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.operator_state_edits import writes_operator_state
from stateproc.writers.write_spec import check_parallelism

AnyOperator = NewOperator | ExistingOperator
DEFAULT_MAX_PARALLELISM = 128


@dataclass
class WriteSettings:
    """Options of the whole savepoint. None: existing operators stay as they are."""

    release: Release
    max_parallelism: int | None
    format: OutputFormat | None = None
    compressed: bool | None = None
    drop_in_flight: bool = False
    storage_options: dict[str, Any] | None = field(default=None, repr=False)
    """Of the target's file system; None: those of the source's file system, if it is of the same kind."""
    rocksdb: TableOptions = field(default_factory=TableOptions)
    hooks: CommitHooks = field(default_factory=CommitHooks)
    checkpoint_id: int | None = None
    own_max_parallelism: dict[str, int] = field(default_factory=dict)
    """The max parallelism of operators for which one was set, by operator id."""
    notes: list[str] = field(default_factory=list)
    """What else a plan says."""


def target_path(path: str, settings: WriteSettings, source: Snapshot | None) -> StorePath:
    """Return a target with its options: by default those of the source, if both are on stores of one kind."""
    options = settings.storage_options
    if options is None and source is not None and store_kind(source.path) == store_kind(path):
        options = dict(source.location.directory.options)
    return StorePath.of(path, options)


@dataclass(frozen=True)
class ScaledOperator:
    """An operator with its parallelism and max parallelism.

    ``keyed``: its keyed state is written anew. ``kept``: why it keeps its max parallelism where another is set for all.
    """

    operator: AnyOperator
    parallelism: int
    max_parallelism: int
    keyed: bool
    kept: str | None = None


def scaled_operators(
    operators: Sequence[AnyOperator], settings: WriteSettings, parallelism: Mapping[str, int], default_parallelism: int
) -> list[ScaledOperator]:
    """Return all operators as they are to be written; see `scaled_operator`."""
    existing = [item.operator.max_parallelism for item in operators if isinstance(item, ExistingOperator)]
    # Where all have 1, the job set it; else Flink fixes it, for operators that are not parallel.
    fixed_at_one = any(number > 1 for number in existing)
    return [
        scaled_operator(item, settings, parallelism, default_parallelism, fixed_at_one=fixed_at_one)
        for item in operators
    ]


def scaled_operator(
    operator: AnyOperator,
    settings: WriteSettings,
    parallelism: Mapping[str, int],
    default_parallelism: int,
    *,
    fixed_at_one: bool = False,
) -> ScaledOperator:
    """Return the operator as it is to be written.

    Args:
        settings: Options of the whole savepoint.
        parallelism: The parallelism of operators for which it was set, by operator id.
        default_parallelism: That of new operators for which it was not.
        fixed_at_one: Whether operators of max parallelism 1 have it from Flink, so that a number for all is not theirs.

    Raises:
        InvalidOption: A parallelism that is not possible.
        UnsupportedSnapshot: A state that stays means other values in the release.
    """
    given = parallelism.get(operator.operator_id)
    wanted = settings.own_max_parallelism.get(operator.operator_id, settings.max_parallelism)
    if isinstance(operator, ExistingOperator):
        operator.check_release(settings.release)
        own = operator.operator
        groups, kept = wanted or own.max_parallelism, None
        if operator.operator_id not in settings.own_max_parallelism and groups != own.max_parallelism:
            kept = _reason_to_keep(own, groups, fixed_at_one, own.parallelism if given is None else given)
            groups = groups if kept is None else own.max_parallelism
        subtasks = min(own.parallelism, groups) if given is None else given
        keyed = not operator.keeps_keyed_files(settings.release, groups, subtasks, settings.format, settings.compressed)
    else:
        own_groups = settings.own_max_parallelism.get(operator.operator_id) or operator.max_parallelism
        groups, kept = own_groups or wanted or DEFAULT_MAX_PARALLELISM, None
        subtasks = max(1, min(groups, default_parallelism)) if given is None else given
        keyed = True
    check_parallelism(subtasks, groups, operator.uid or operator.operator_id)
    return ScaledOperator(operator, subtasks, groups, keyed, kept)


def _reason_to_keep(own: Operator, groups: int, fixed_at_one: bool, parallelism: int) -> str | None:
    """Return why an operator keeps its max parallelism where ``groups`` is set for all; None if it does not."""
    if own.max_parallelism == 1 and fixed_at_one:
        return "Flink fixes the max parallelism of operators that are not parallel at 1"
    keyed = any(item.managed_keyed or item.raw_keyed for item in own.metadata.subtasks)
    if not keyed and groups < parallelism <= own.max_parallelism:
        return (
            f"it has {parallelism} subtasks and no keyed state. With parallelism {groups} or less (--parallelism "
            "UID=N, with_parallelism) it gets the new one"
        )
    return None


def kept_handles(operator: ExistingOperator, item: ScaledOperator, release: Release) -> OperatorEntry:
    """Return the operator's metadata without the handles of state that is written anew."""
    metadata = operator.operator.metadata
    subtasks = metadata.subtasks
    if item.keyed:
        own = operator.operator
        stays = {part.subtask for part in raw_keyed_parts(own)} if item.parallelism == own.parallelism else set()
        subtasks = tuple(
            replace(subtask, managed_keyed=None, raw_keyed=subtask.raw_keyed if subtask.index in stays else None)
            for subtask in subtasks
        )
    if writes_operator_state(operator, item.parallelism, release):
        subtasks = tuple(replace(subtask, managed_operator=None) for subtask in subtasks)
    return replace(metadata, subtasks=subtasks)
