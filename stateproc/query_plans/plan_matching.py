"""Match the nodes of a job's compiled plan with those of its changed query, by what they compute.

Nodes of one definition hold the same state. State of one frame is converted: an aggregate over the same groups to
other calls, kept rows to other columns, of the same or of wider types. Sources and sinks are matched by their tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stateproc.errors import InvalidOption, not_found
from stateproc.keygroups.operator_ids import operator_id
from stateproc.query_plans.node_definitions import AGGREGATES, GROUPS, Definition, own_definition
from stateproc.query_plans.node_rules import NODE_RULES, aggregate_calls, function_of, is_built_in, node_uids, retracts
from stateproc.query_plans.over_aggregates import timers_of_over
from stateproc.query_plans.plan_comparison import comparable
from stateproc.query_plans.plan_file import CompiledPlan, PlanNode
from stateproc.query_plans.plan_lineage import (
    definitions,
    in_order,
    is_stateless,
    nearest_stateful,
    returns_changes,
    stateful_before,
)
from stateproc.query_plans.plan_tables import SCAN, SINK, TABLES, table_of, table_place, table_schema

MATERIALIZER = "upsert-materialize"
"""The transformation before a sink that keeps rows by its primary key."""
CONVERTIBLE = frozenset({"COUNT", "SUM", "SUM0", "MIN", "MAX", "AVG"})
"""Functions whose accumulators are values of their own."""
_MOST_OF_ONE_FRAME = 1_000_000
"""So many pairs of nodes are compared at most."""
_AT_EACH_ROW = 2
"""Timers of OVER in Flink 2, as `timers_of_over` calls them; with these Flink 1 goes on, too."""
_OPERATORS = {SCAN: "source", SINK: "sink"}


@dataclass(frozen=True)
class Pair:
    """Nodes that hold the same state.

    Attributes:
        by_table: Whether only their tables are the same: what is before a sink computes something else.
        kept: Of an aggregate with other calls, for each call of the new node that of the old one, None for a new call.
            None where state stays as it is.
        alike: For each call of the new node those of the old one over the same arguments, by function: the call, and
            its buffer.
        columns: Of kept rows with other columns, of each input for each new column the position of the old one, None
            for a new column. None where state stays as it is.
        mapped: Whether the user said so.
        filtered: Whether the new node leaves rows out that the old one kept.
        other_partners: Whether rows of a join are partners by another condition beside its keys.
    """

    old: PlanNode
    new: PlanNode
    by_table: bool = False
    kept: tuple[int | None, ...] | None = None
    columns: tuple[tuple[int | None, ...], ...] | None = None
    mapped: bool = False
    alike: tuple[Mapping[str, tuple[int, int]], ...] = ()
    filtered: bool = False
    other_partners: bool = False

    @property
    def is_converted(self) -> bool:
        """Whether the state does not stay as it is."""
        return self.kept is not None or self.columns is not None

    @property
    def has_other_timers(self) -> bool:
        """Whether the rows that wait for a time have no timers that the new node understands."""
        new, old = timers_of_over(self.new), timers_of_over(self.old)
        return bool(new != old and new == _AT_EACH_ROW)


@dataclass(frozen=True)
class PlanMatch:
    """Which nodes of two plans hold the same state.

    Attributes:
        old: The plan of the job that wrote the snapshot.
        new: The plan of the job that will restore it.
        pairs: The nodes that hold the same state.
    """

    old: CompiledPlan
    new: CompiledPlan
    pairs: Sequence[Pair]

    @property
    def operator_ids(self) -> dict[str, str]:
        """The uids of the operators of matched nodes: operator id in the old job → uid in the new one."""
        found: dict[str, str] = {}
        for pair in self.pairs:
            uids = node_uids(self.new, pair.new)
            if pair.old.kind != pair.new.kind:
                found[operator_id(main_uid(self.old, pair.old))] = main_uid(self.new, pair.new)
            for transformation, uid in node_uids(self.old, pair.old).items():
                if transformation in uids and not (pair.by_table and transformation == MATERIALIZER):
                    found[operator_id(uid)] = uids[transformation]
        return found

    @property
    def ended(self) -> list[PlanNode]:
        """Nodes of the old plan without a counterpart, whose operators may hold state."""
        known = {pair.old.id for pair in self.pairs}
        return [node for node in self.old.nodes if node.id not in known and not is_stateless(node)]

    @property
    def new_sources(self) -> list[PlanNode]:
        """Sources of the new plan that no source of the old one is."""
        known = {pair.new.id for pair in self.pairs}
        return [node for node in self.new.nodes if node.id not in known and node.kind == SCAN]

    @property
    def stateful(self) -> dict[str, PlanNode]:
        """The operators of the new plan that may hold state: `stateful_operators`."""
        return stateful_operators(self.new)

    def without(self, uids: Collection[str]) -> PlanMatch:
        """Return the match if operators of the new plan begin without state; what counts on them begins so as well.

        Raises InvalidOption for a node that a user mapped, and that counts on one that begins.
        """
        stateful = self.stateful
        begun = {stateful[uid].id for uid in uids if uid in stateful}
        pairs = {pair.new.id: pair for pair in self.pairs}
        before = stateful_before(self.new)
        for node in in_order(self.new):
            pair = pairs.get(node.id)
            if pair is None or node.kind == SCAN:
                continue
            waits = [one for one in before[node.id] if one.kind != SCAN and one.id not in pairs]
            if not waits and node.id not in begun:
                continue
            if node.kind == SINK:
                pairs[node.id] = replace(pair, by_table=True, columns=None)
            elif waits and pair.mapped:
                raise InvalidOption(
                    f"{main_uid(self.new, node)} ({node.label}) cannot go on: {waits[0].label} before it begins "
                    "without state, and would return again what is counted",
                    advice=f"let it begin as well: --empty {main_uid(self.new, node)}, without --map",
                )
            else:
                del pairs[node.id]
        return PlanMatch(self.old, self.new, tuple(pairs.values()))

    @property
    def contradictions(self) -> Iterator[tuple[str, PlanNode, PlanNode]]:
        """Yield the operators that begin without state after a node that goes on and takes back what they never saw:
        the uid, its node, and that other node."""
        known, before = {pair.new.id for pair in self.pairs}, stateful_before(self.new)
        for uid, node in self.empty.items():
            for other in before[node.id]:
                of_changes = other.kind == SCAN and node.at("needRetraction") is True
                if other.id in known and (of_changes or returns_changes(other)):
                    yield uid, node, other

    @property
    def empty(self) -> dict[str, PlanNode]:
        """The uids of the operators of the new plan that hold state and would start empty, and their nodes."""
        found: dict[str, PlanNode] = {}
        known = {pair.new.id: pair.by_table for pair in self.pairs}
        for uid, node in self.stateful.items():
            if known.get(node.id, True) if node.kind == SINK else node.id not in known:
                found[uid] = node
        return found


def stateful_operators(plan: CompiledPlan) -> dict[str, PlanNode]:
    """Return the uids of operators of a plan that may hold state, of sinks the materializers; and their nodes."""
    found: dict[str, PlanNode] = {}
    for node in plan.nodes:
        if node.kind == SINK:
            if node.at("requireUpsertMaterialize") is True:
                found[node_uids(plan, node)[MATERIALIZER]] = node
        elif not is_stateless(node) and node.kind != SCAN:
            found[main_uid(plan, node)] = node
    return found


def matched_plans(old: CompiledPlan, new: CompiledPlan, given: Mapping[str, str]) -> PlanMatch:
    """Match the nodes of two plans.

    Args:
        old: The plan of the job that wrote the snapshot.
        new: The plan of the job that will restore it.
        given: uid of an operator of the old job → uid in the new one, for nodes that definitions do not match. What
            they do themselves, and the types of their inputs, have to be the same.

    Raises:
        NotFound: A plan has no operator of a given uid.
        InvalidOption: Nodes that were given do not hold the same state, or several nodes have one definition.
    """
    texts = [definitions(plan) for plan in (old, new)]
    timeless = [definitions(comparable(plan, types=False)) for plan in (old, new)]
    wide = [definitions(comparable(plan, types=True)) for plan in (old, new)]
    pairs = [replace(_given_pair(old, new, *uids, texts, wide), mapped=True) for uids in given.items()]
    pairs += _paired(old, new, pairs, lambda side, node: texts[side][node.id].state, by_table=False)
    pairs += _paired(old, new, pairs, lambda side, node: timeless[side][node.id].state, by_table=False)
    pairs += _paired(old, new, pairs, lambda _, node: table_place(node), by_table=True)
    pairs += _converted(old, new, pairs, wide)
    pairs = [_materialized(pair, wide) for pair in pairs]
    pairs += _by_neighbours(old, new, pairs)
    unknown = [pair.new.kind == SINK and table_schema(pair.new) is None for pair in pairs]
    pairs = [
        Pair(pair.old, pair.new, by_table=True) if sink else pair for pair, sink in zip(pairs, unknown, strict=True)
    ]
    return PlanMatch(old, new, tuple(pairs)).without(())


def _materialized(pair: Pair, texts: Sequence[Mapping[int, Definition]]) -> Pair:
    """Return a pair of sinks of one table with what is kept before them, if both keep the same rows."""
    frames = [text[node.id].frame for text, node in zip(texts, (pair.old, pair.new), strict=True)]
    if pair.new.kind != SINK or not pair.by_table or frames[0] != frames[1] or not frames[0]:
        return pair
    return replace(_with_columns(pair.old, pair.new, texts), mapped=pair.mapped)


def _converted(
    old: CompiledPlan, new: CompiledPlan, found: Sequence[Pair], texts: Sequence[Mapping[int, Definition]]
) -> list[Pair]:
    """Return the pairs of nodes of one frame, whose state is converted; then those that keep the same and emit others.

    A join goes on as one of another type only where there is none of its own; so do TopN of another number, and a
    deduplication that returns another row.
    """
    taken = [{pair.old.id for pair in found}, {pair.new.id for pair in found}]
    frames: list[dict[str, list[PlanNode]]] = [{}, {}]
    for side, plan in enumerate((old, new)):
        for node in plan.nodes:
            frame = texts[side][node.id].frame
            if node.id not in taken[side] and frame and is_convertible(node):
                frames[side].setdefault(frame, []).append(node)
    of_any: list[dict[str, list[PlanNode]]] = [{}, {}]
    for side, one in enumerate(frames):
        for node in (node for frame, nodes in one.items() if frame not in frames[1 - side] for node in nodes):
            any_results = texts[side][node.id].any_results
            if any_results:
                of_any[side].setdefault(any_results, []).append(node)
    both = [(nodes, others.get(frame, [])) for own, others in (frames, of_any) for frame, nodes in own.items()]
    made = [pair for ones, others in both for pair in _of_one_frame(ones, others, texts)]
    return [pair for pair in made if pair.kept is None or set(pair.kept) - {None} or _follows(pair)]


_MADE_OF = {"AVG": ({"SUM", "COUNT"},), "SUM": ({"AVG"},), "COUNT": ({"COUNT"}, {"AVG"})}
"""Function → the functions of the same arguments from whose accumulators its own can be made: these, or else those."""
_TAKING_BACK = frozenset({"COUNT", "SUM", "SUM0", "AVG"})
"""Functions whose accumulators are values of their own if rows may be taken back, too: MIN and MAX keep all values."""


def _follows(pair: Pair) -> bool:
    """Whether a call of the new node may follow from those of the old one over the same arguments."""
    return any(sources_of(pair, number) for number in range(len(aggregate_calls(pair.new))))


def sources_of(pair: Pair, number: int) -> Collection[str]:
    """Return the functions over the arguments of a new call of whose accumulators its own may be made; none if it
    begins."""
    call = aggregate_calls(pair.new)[number]
    if not pair.alike or call.get("distinct") is True:
        return ()
    return next((of for of in _MADE_OF.get(function_of(call), ()) if of <= pair.alike[number].keys()), ())


def _calls_by_arguments(node: PlanNode, arguments: Sequence[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return the calls over the same arguments by function, each with its buffer that has the function's value.

    SUM of rows that may be taken back has their number, too. What DISTINCT has seen belongs to its own calls.
    """
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for at, (call, over) in enumerate(zip(aggregate_calls(node), arguments, strict=True)):
        if is_known_call(node, at) and call.get("distinct") is not True:
            function = function_of(call)
            found.setdefault(over, {})[function] = at, 0
            if function == "SUM" and retracts(node, at, call):
                found[over].setdefault("COUNT", (at, 1))
    return found


def _of_one_frame(
    ones: Sequence[PlanNode], others: Sequence[PlanNode], texts: Sequence[Mapping[int, Definition]]
) -> Iterator[Pair]:
    """Yield the pairs of nodes of one frame, which hold the same rows or groups, by what they share most.

    A node is left out if another old one knows more of it than that which is left for it.
    """
    parts = [{node.id: _parts(texts[side][node.id]) for node in nodes} for side, nodes in enumerate((ones, others))]
    known: set[tuple[int, str]] = set().union(*parts[0].values())
    ranked = sorted(
        (-len(parts[0][one.id] & parts[1][two.id]), len(parts[0][one.id] - parts[1][two.id]), one.id, two.id)
        for one in ones
        for two in others
        if len(ones) * len(others) <= _MOST_OF_ONE_FRAME
    )
    by_id = [{node.id: node for node in nodes} for nodes in (ones, others)]
    for _, _, one, two in ranked:
        if one in by_id[0] and two in by_id[1]:
            before, after = by_id[0].pop(one), by_id[1].pop(two)
            pair = _conversion(before, after, texts)
            if pair is not None and parts[1][two] & known <= parts[0][one]:
                yield pair


def _parts(definition: Definition) -> frozenset[tuple[int, str]]:
    """Return the calls or the columns of kept rows, of each input."""
    return frozenset((side, text) for side, texts in enumerate((definition.calls, *definition.kept)) for text in texts)


def _conversion(one: PlanNode, two: PlanNode, texts: Sequence[Mapping[int, Definition]]) -> Pair | None:
    """Return a pair whose state is converted; None if a call would begin whose accumulator is not known, or if rows
    were left out by a condition that the new node does not have."""
    before, after = texts[0][one.id], texts[1][two.id]
    if before.condition not in ("", after.condition):
        return None
    pair = _with_columns(one, two, texts) if before.kept else Pair(one, two)
    if not before.calls:
        return replace(
            pair, filtered=before.condition != after.condition, other_partners=before.partners != after.partners
        )
    kept = positions(before.calls, after.calls)
    if any(source is None and not is_known_call(two, number) for number, source in enumerate(kept)):
        return None
    known = _calls_by_arguments(one, before.arguments)
    return replace(pair, kept=kept, alike=tuple(known.get(over, {}) for over in after.arguments))


def _with_columns(one: PlanNode, two: PlanNode, texts: Sequence[Mapping[int, Definition]]) -> Pair:
    before, after = texts[0][one.id], texts[1][two.id]
    return Pair(one, two, columns=tuple(positions(*each) for each in zip(before.kept, after.kept, strict=True)))


def positions(before: Sequence[str], after: Sequence[str]) -> tuple[int | None, ...]:
    """Return where each of the texts after is before; of several that are the same, each has its own where it can."""
    known: dict[str, list[int]] = {}
    for position in reversed(range(len(before))):
        known.setdefault(before[position], []).append(position)
    found: list[int | None] = []
    for text in after:
        left = known.get(text)
        found.append(None if left is None else left.pop() if len(left) > 1 else left[0])
    return tuple(found)


def is_convertible(node: PlanNode) -> bool:
    """Whether the state of a node of one frame is converted."""
    if node.kind not in AGGREGATES:
        return True
    return bool(aggregate_calls(node)) and (node.at("needRetraction") is not True or AGGREGATES[node.kind] == GROUPS)


def is_known_call(node: PlanNode, number: int) -> bool:
    """Whether the accumulator of a call, of this number in `aggregate_calls`, is of values that are known."""
    call = aggregate_calls(node)[number]
    known = _TAKING_BACK if retracts(node, number, call) else CONVERTIBLE
    return is_built_in(call) and function_of(call) in known


def _paired(
    old: CompiledPlan,
    new: CompiledPlan,
    found: Sequence[Pair],
    of: Callable[[int, PlanNode], str | None],
    by_table: bool,
) -> list[Pair]:
    """Return the pairs of other nodes for which a function gives the same. Raises InvalidOption for several of one."""
    taken = [{pair.old.id for pair in found}, {pair.new.id for pair in found}]
    groups: list[dict[tuple[str, str], list[PlanNode]]] = [{}, {}]
    for side, plan in enumerate((old, new)):
        for node in plan.nodes:
            text = None if node.id in taken[side] or is_stateless(node) else of(side, node)
            if text is not None:
                groups[side].setdefault((AGGREGATES.get(node.kind, node.kind), text), []).append(node)
    made: list[Pair] = []
    for place, nodes in groups[0].items():
        others = groups[1].get(place, [])
        if len(nodes) == len(others) == 1:
            made.append(Pair(nodes[0], others[0], by_table))
        elif others and nodes[0].kind not in TABLES:
            raise _ambiguous(old, nodes)
    return made


def _by_neighbours(old: CompiledPlan, new: CompiledPlan, found: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of sources of one table by the nodes that read them, and of sinks by those that they read.

    Flink 1.16 has a source for each query that reads a table. One that only nodes without a counterpart read is
    left out. Raises InvalidOption where neighbours do not say which is which.
    """
    taken = [{pair.old.id for pair in found}, {pair.new.id for pair in found}]
    known = {pair.old.id: pair.new.id for pair in found}
    groups: list[dict[tuple[str, str | None], list[PlanNode]]] = [{}, {}]
    for side, plan in enumerate((old, new)):
        for node in plan.nodes:
            if node.kind in TABLES and node.id not in taken[side] and table_place(node) is not None:
                groups[side].setdefault((node.kind, table_place(node)), []).append(node)
    waiting = {node.id: node for place, nodes in groups[0].items() for node in nodes if place in groups[1]}
    near = [_neighbours(plan) for plan in (old, new)]
    beside: dict[tuple[tuple[str, str | None], tuple[int, int]], list[PlanNode]] = {}
    for place, nodes in groups[1].items():
        for node in nodes:
            for one in near[1].get(node.id, ()):
                beside.setdefault((place, one), []).append(node)
    made: list[Pair] = []
    for node in waiting.values():
        around = near[0].get(node.id, set())
        wanted = {(known[one], side) for one, side in around if one in known}
        place = node.kind, table_place(node)
        each = [beside.get((place, one), []) for one in wanted]
        fitting = [other for other in min(each, key=len, default=[]) if wanted <= near[1][other.id]]
        if len(fitting) == 1:
            made.append(Pair(node, fitting[0], by_table=True))
        elif wanted or any(one in waiting for one, _ in around):
            raise _ambiguous(old, groups[0][place])
    _refuse_several_to_one(old, new, made)
    return made


def _refuse_several_to_one(old: CompiledPlan, new: CompiledPlan, made: Sequence[Pair]) -> None:
    """Raise InvalidOption for several sources or sinks of a table that become one: each has its own positions."""
    by_new: dict[int, list[Pair]] = {}
    for pair in made:
        by_new.setdefault(pair.new.id, []).append(pair)
    for pairs in by_new.values():
        if len(pairs) > 1:
            shown, uid = ", ".join(main_uid(old, pair.old) for pair in pairs), main_uid(new, pairs[0].new)
            raise InvalidOption(
                f"several operators of {table_of(pairs[0].new)} become one, {uid}: {shown}",
                advice=f"say whose positions it has: --map {main_uid(old, pairs[0].old)}={uid}; where another one was "
                "further, what reads that gets rows again, and where it was not as far, it misses some",
            )


def _neighbours(plan: CompiledPlan) -> dict[int, set[tuple[int, int]]]:
    """Return the nodes with state, and sinks, that read each source, with the number of their input; and what each sink
    reads."""
    before = stateful_before(plan)
    found: dict[int, set[tuple[int, int]]] = {}
    for node in plan.nodes:
        if is_stateless(node) or node.kind == SCAN:
            continue
        for side, source in enumerate(node.sources):
            for one in nearest_stateful(source, before):
                if one.kind == SCAN:
                    found.setdefault(one.id, set()).add((node.id, side))
                if node.kind == SINK:
                    found.setdefault(node.id, set()).add((one.id, 0))
    return found


def _given_pair(
    old: CompiledPlan,
    new: CompiledPlan,
    before: str,
    after: str,
    texts: Sequence[Mapping[int, Definition]],
    wide: Sequence[Mapping[int, Definition]],
) -> Pair:
    one, two = node_of_uid(old, before), node_of_uid(new, after)
    if one.kind == two.kind and texts[0][one.id].state == texts[1][two.id].state:
        return Pair(one, two)
    if one.kind == two.kind and one.kind in TABLES and table_place(one) == table_place(two) is not None:
        return Pair(one, two, by_table=True)
    both = wide[0][one.id], wide[1][two.id]
    is_alike = both[0].frame == both[1].frame != "" or both[0].any_results == both[1].any_results != ""
    if is_alike and is_convertible(one) and is_convertible(two):
        pair = _conversion(one, two, wide)
        if pair is not None:
            return pair
    types = [[node.types(index) for index in range(len(node.sources))] for node in (one, two)]
    if own_definition(one) != own_definition(two) or types[0] != types[1]:
        raise InvalidOption(
            f"{one.label} ({before}) and {two.label} ({after}) compute something else, or of other columns: the state "
            "of one is not that of the other",
            advice="let the new one start empty (--empty), and its results begin with the restore",
        )
    return Pair(one, two)


def node_of_uid(plan: CompiledPlan, uid: str) -> PlanNode:
    """Return the node with an operator of a uid. Raises NotFound."""
    known = {found: node for node in plan.nodes for found in node_uids(plan, node).values()}
    if uid not in known:
        stateful = [name for name, node in known.items() if node.kind in NODE_RULES or node.kind in TABLES]
        raise not_found("operator in the plan with uid", uid, stateful)
    return known[uid]


def _ambiguous(plan: CompiledPlan, nodes: Sequence[PlanNode]) -> InvalidOption:
    shown = ", ".join(main_uid(plan, node) for node in nodes)
    return InvalidOption(
        f"several operators compute the same, or read or write one table: {shown}",
        advice="say which is which: --map OLD-UID=NEW-UID",
    )


def state_uid(plan: CompiledPlan, node: PlanNode) -> str:
    """Return the uid of the operator that holds the state of a node; of a sink that of its materializer."""
    return node_uids(plan, node)[MATERIALIZER] if node.kind == SINK else main_uid(plan, node)


def main_uid(plan: CompiledPlan, node: PlanNode) -> str:
    """Return the uid of the operator of a node that holds its state; of a source or sink that of itself."""
    uids = node_uids(plan, node)
    rule = NODE_RULES.get(node.kind)
    names = (_OPERATORS.get(node.kind), None if rule is None else rule.transformation)
    return next((uids[name] for name in names if name in uids), next(iter(uids.values()), node.label))
