"""Say how calls of an aggregate go on over a column that became wider: the types of their accumulators and views.

Accumulators that are values of their own (COUNT, SUM, AVG, and MIN and MAX of rows that are only added) are those of
`call_buffers`. Other functions keep values of the column as they are in a row, or in views; `aggregate_states` has the
types of both, whatever they are over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stateproc.query_plans.aggregate_states import views_of_call
from stateproc.query_plans.aggregate_views import distinct_views, wider_seen, wider_type
from stateproc.query_plans.node_rules import aggregate_calls, function_of, is_built_in, retracts
from stateproc.query_plans.plan_file import PlanNode
from stateproc.query_plans.plan_matching import Pair, is_known_call
from stateproc.query_plans.state_parts import NodeState, Record
from stateproc.serializers import Serializer
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.type_text import external

_TEXT = ("CHAR", "VARCHAR")
_KEEP_VALUES = frozenset({"ARRAY_AGG", "COLLECT", "FIRST_VALUE", "LAG", "LAST_VALUE", "LISTAGG", "MAX", "MIN"})
"""Functions whose accumulators and views have values of their column. JSON has text that was made of these."""


@dataclass(frozen=True)
class ViewTypes:
    """The wider type of the keys of a view's map, or of its values.

    Attributes:
        as_keys: Whether it is the type of keys.
    """

    type: Serializer
    as_keys: bool


def wider_argument(pair: Pair, number: int, source: int) -> LogicalType | None:
    """Return the type of the column of a call that stays, where it is wider and the call keeps values of it.

    LISTAGG has text of any length.

    Args:
        pair: The nodes.
        number: A call of the new node.
        source: That of the old node which it was.
    """
    call = aggregate_calls(pair.new)[number]
    if not is_built_in(call) or function_of(call) not in _KEEP_VALUES or is_known_call(pair.new, number):
        return None
    found = wider_type(pair, number, source)
    return None if found is None or (function_of(call) == "LISTAGG" and found.kind not in _TEXT) else found


def wider_views(pair: Pair, views: Sequence[int | None]) -> dict[str, ViewTypes]:
    """Return the types that become wider in states of views, by the names that these have.

    Args:
        pair: The nodes, and which call is which.
        views: `kept_views`.
    """
    found: dict[str, ViewTypes] = {}
    for calls, view in zip(distinct_views(pair.new), views, strict=True):
        seen = None if view is None else wider_seen(pair, calls[0])
        if seen is not None:
            found[f"distinctAcc_{view}"] = ViewTypes(external(seen), as_keys=True)
    for number, source in enumerate(pair.kept or ()):
        if source is None or wider_argument(pair, number, source) is None:
            continue
        for old, new in zip(_views(pair.old, source), _views(pair.new, number), strict=True):
            if old.map_key is not None and new.map_key is not None and old.map_key != new.map_key:
                found[old.name] = ViewTypes(new.map_key.serializer, as_keys=True)
            elif old.value.serializer != new.value.serializer:
                found[old.name] = ViewTypes(new.value.serializer, as_keys=False)
    return found


def _views(node: PlanNode, number: int) -> Iterator[NodeState]:
    call = aggregate_calls(node)[number]
    yield from views_of_call(node, Record((), ()), number, call, taken_back=retracts(node, number, call))
