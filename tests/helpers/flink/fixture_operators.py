"""The operators of the fixtures' jobs, as a job that reads their state back registers them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.helpers.flink.restoration import HUNDRED_YEARS, Operator, State, Timers, Windows

ORDER = "POJO(fixtures.Order)"
TOTALS = "POJO(fixtures.Totals)"
WINDOW_TIMERS = (Timers("window-timers", "TIME_WINDOW"),)
WINDOW_SQL = Timers("window-timers", "LONG")
CLICK = (
    '{"type": "record", "name": "Click", "namespace": "fixtures", "fields": [{"name": "url", "type": "string"}, '
    '{"name": "at", "type": ["null", "long"], "default": null}, {"name": "score", "type": "double"}, '
    '{"name": "tags", "type": {"type": "array", "items": "string"}}]}'
)


def kitchen(uid: str, key: str, ttl: int | None = None) -> Operator:
    """One function of every kind of keyed state."""
    states = (
        State("profile", "value", "POJO(fixtures.Profile)", ttl=ttl),
        State("counter", "value", "LONG", ttl=ttl),
        State("products", "list", "LIST(STRING)", ttl=ttl),
        State("spent", "map", "MAP(STRING, DOUBLE)", ttl=ttl),
        State("addresses", "map", "MAP(INT, POJO(fixtures.Profile$Address))", ttl=ttl),
        State("reduced", "reducing", "LONG", ttl=ttl),
        State("totals", "aggregating", TOTALS, ttl=ttl),
    )
    return Operator(uid, key, states, (Timers(),))


def window(uid: str, key: str, kind: str, contents: str, *more: State, all: bool = False) -> Operator:
    """The state of a window operator with windows in event time; over all elements, not per key, if `all`."""
    held = State("window-contents", kind, contents, "TIME_WINDOW")
    return Operator(uid, key, (held, *more), WINDOW_TIMERS, non_parallel=all)


def states(uid: str, **types: str) -> Operator:
    """A value state per name, keyed by Long."""
    return Operator(
        uid, "LONG", tuple(State(name.replace("_", "-"), "value", type) for name, type in types.items()), (Timers(),)
    )


COUNT = State("count", "reducing", "LONG", "TIME_WINDOW")
SESSIONS = State("merging-window-set", "list", "LIST(TUPLE(TIME_WINDOW, TIME_WINDOW))")
BUFFERS = Operator(
    "buffers",
    states=(
        State("split", "operator-list", f"LIST({ORDER})"),
        State("union", "operator-union", "LIST(STRING)"),
        State("empty", "operator-list", "LIST(LONG)"),
    ),
)
EDGES = states(
    "edges",
    string="STRING",
    double="DOUBLE",
    float="FLOAT",
    long="LONG",
    int="INT",
    short="SHORT",
    byte="BYTE",
    char="CHAR",
    boolean="BOOLEAN",
    decimal="BIG_DEC",
    integer="BIG_INT",
    date="LOCAL_DATE",
    time="LOCAL_TIME",
    date_time="LOCAL_DATE_TIME",
    instant="INSTANT",
    sql_timestamp="SQL_TIMESTAMP",
    enum="ENUM(fixtures.Edges$Color)",
    bytes="PRIMITIVE_ARRAY(BYTE)",
    longs="PRIMITIVE_ARRAY(LONG)",
    strings="BASIC_ARRAY(STRING)",
    either="EITHER(STRING, LONG)",
    list="LIST(LONG)",
    map="MAP(STRING, LONG)",
    row="ROW(INT, STRING, ROW(LONG, BOOLEAN))",
    empty="LONG",
)
GENERIC = states(
    "edges-generic",
    animal="POJO(fixtures.Edges$Animal)",
    basket="POJO(fixtures.Edges$Basket)",
    generic="GENERIC(fixtures.Edges$Generic)",
)

OPERATORS: dict[str, tuple[Operator, ...]] = {
    "tiny": (kitchen("kitchen-string", "STRING"),),
    "kitchen": (
        kitchen("kitchen-long", "LONG"),
        kitchen("kitchen-ttl", "LONG", HUNDRED_YEARS),
        kitchen("kitchen-string", "STRING"),
        kitchen("kitchen-tuple", "TUPLE(STRING, INT)"),
    ),
    "windows": (
        window("tumbling-reduce", "LONG", "reducing", ORDER, COUNT),
        window("sliding-process", "STRING", "list", f"LIST({ORDER})"),
        window("session-aggregate", "STRING", "aggregating", TOTALS, SESSIONS),
        window("session-list", "STRING", "list", f"LIST({ORDER})", SESSIONS),
        Operator(
            "global-count",
            "LONG",
            (
                State("window-contents", "list", f"LIST({ORDER})", "GLOBAL_WINDOW"),
                State("count", "reducing", "LONG", "GLOBAL_WINDOW"),
            ),
            (Timers("window-timers", "GLOBAL_WINDOW"),),
        ),
        window("tumbling-evict", "STRING", "list", f"LIST(STREAM_RECORD({ORDER}))"),
    ),
    "operators": (
        BUFFERS,
        Operator(
            "broadcast-rules",
            states=(
                State("rules", "broadcast", f"MAP(STRING, {ORDER})"),
                State("names", "broadcast", "MAP(INT, STRING)"),
            ),
        ),
    ),
    "edges": (EDGES, GENERIC, states("edges-avro", **{"generic-record": f"AVRO_GENERIC('{CLICK}')"})),
    "corners": (
        BUFFERS,
        window("window-all", "BYTE", "list", f"LIST({ORDER})", all=True),
        states("avro-specific", last="AVRO_SPECIFIC(fixtures.Corners$Sighting)"),
        Operator(
            "python", "ROW(STRING)", (State("python-state-x", "list", "LIST(PRIMITIVE_ARRAY(BYTE))"),), (Timers(),)
        ),
    ),
    "kafka": (
        Operator("orders-from-kafka", kafka=True),
        Operator(
            "orders-per-customer",
            "LONG",
            (
                State("profile", "value", "POJO(fixtures.Profile)"),
                State("spent-per-product", "map", "MAP(STRING, DOUBLE)"),
            ),
            (Timers(),),
        ),
        window("revenue-per-product", "STRING", "aggregating", TOTALS),
    ),
}
"""Job → its operators with state."""

MINUTE = 60_000
FIRING: dict[str, tuple[Operator, ...]] = {
    "windows": (
        Operator("tumbling-reduce", "LONG", windows=Windows("tumbling", "reduce", ORDER, MINUTE)),
        Operator("sliding-process", "STRING", windows=Windows("sliding", "list", ORDER, 2 * MINUTE, MINUTE)),
        Operator("session-aggregate", "STRING", windows=Windows("session", "aggregate", TOTALS, MINUTE // 2)),
        Operator("session-list", "STRING", windows=Windows("session", "list", ORDER, MINUTE // 2)),
        OPERATORS["windows"][4],
        Operator("tumbling-evict", "STRING", windows=Windows("tumbling", "evict", ORDER, 60 * MINUTE)),
    ),
}
"""Job → its operators, windows in Flink's own operator."""


def of_sql(hashes: Mapping[str, str]) -> tuple[Operator, ...]:
    """The operators of the job `sql`, whose uids Flink makes up: `hashes` by a state they have.

    The group aggregate's accumulator holds a raw map view; of its operator only the distinct keys are read.
    """
    customer, product = "SQL('ROW<customer BIGINT NOT NULL>')", "SQL('ROW<product STRING>')"
    order = "SQL('ROW<amount DOUBLE NOT NULL, number INT NOT NULL, product STRING>')"
    left = "SQL('ROW<customer BIGINT NOT NULL, number INT NOT NULL>')"
    right = "SQL('ROW<amount DOUBLE NOT NULL, customer BIGINT NOT NULL>')"
    last = "SQL('ROW<customer BIGINT NOT NULL, number INT NOT NULL, product STRING, at TIMESTAMP_LTZ(3)>')"
    sums = State("window-aggs", "value", "SQL('ROW<sum DOUBLE, count BIGINT>')", "LONG")
    top = f"MAP(SQL('ROW<amount DOUBLE NOT NULL>'), LIST({order}))"
    held: dict[str, tuple[str, tuple[State, ...], tuple[Timers, ...]]] = {
        "window-aggs": (customer, (sums, State("watermark", "operator-union", "LIST(LONG)")), (WINDOW_SQL,)),
        "deduplicate-state": (customer, (State("deduplicate-state", "value", last),), (Timers(),)),
        "left-records": (
            customer,
            (State("left-records", "map", f"MAP({left}, INT)"), State("right-records", "map", f"MAP({right}, INT)")),
            (),
        ),
        "data-state-with-append": (product, (State("data-state-with-append", "map", top),), (Timers(),)),
        "accState": (
            product,
            (State("distinctAcc_0", "map", "MAP(EXTERNAL('BIGINT NOT NULL'), EXTERNAL('BIGINT NOT NULL'))"),),
            (),
        ),
    }
    return tuple(
        Operator(None, key, states, timers, uid_hash=hashes[name]) for name, (key, states, timers) in held.items()
    )
