"""Parse a condition on rows, and refuse what reads anything but the row.

DuckDB parses the text and returns its syntax tree as JSON (``json_serialize_sql``). What is not listed here is refused:
subqueries, windows, aggregates, parameters, functions whose result does not follow from their arguments.
"""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from stateproc.errors import InvalidOption, package_for
from stateproc.row_formats.case_collisions import matching_names

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# The DuckDB in memory that parses and evaluates conditions: one connection per thread, without access to anything.

_LOCAL = threading.local()


def connection() -> DuckDBPyConnection:
    """Return this thread's connection: no files, no extensions, no settings that a condition could change."""
    found: DuckDBPyConnection | None = getattr(_LOCAL, "connection", None)
    if found is None:
        with package_for("a condition on rows"):
            import duckdb  # Lazy: start-up, optional dependency.

        found = duckdb.connect(config={"threads": 1, "python_enable_replacements": False})
        found.execute("SET TimeZone = 'UTC'")
        found.execute("SET errors_as_json = true")
        if int(duckdb.__version__.partition(".")[0]) < 2:
            # It lets Arrow evaluate conditions, where NaN is not the greatest number.
            found.execute("SET disabled_optimizers = 'filter_pushdown'")
        found.execute("SET enable_external_access = false")
        found.execute("SET lock_configuration = true")
        _LOCAL.connection = found
    return found


def duckdb_errors() -> Any:
    """Return the base class of DuckDB's errors."""
    import duckdb

    return duckdb.Error


def arrow_reader(relation: Any, rows: int) -> pa.RecordBatchReader:
    """Return the rows of a relation or result as a stream, by the name that this release of DuckDB has for it.

    Args:
        relation: What DuckDB returned.
        rows: How many rows a batch has at most.
    """
    for name in ("to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch", "record_batch"):
        if hasattr(relation, name):
            return getattr(relation, name)(rows)
    raise InvalidOption("this release of duckdb does not return Arrow streams", advice="install duckdb 1.1 or later")


Node: TypeAlias = "dict[str, Any]"
"""A node of DuckDB's syntax tree; an expression has a ``class``."""

EXAMPLES = "e.g. key = 42, key IN (1, 2), value.name LIKE 'tea%' AND (value.total >= 1.5 OR value.x IS NULL)"
SELECT = "SELECT "
_LONGEST = 1 << 20
MAX_DEPTH = 100
"""Levels of parentheses and brackets in a condition."""
_TOKEN = re.compile(
    r"(?P<string>'(?:[^']|'')*')|(?P<quoted>\"(?:[^\"]|\"\")*\"|`[^`]*`)|(?P<open>['\"`])"
    r"|(?P<number>\d[\w.]*)|(?P<word>[^\W\d][\w$]*)|(?P<other>\S)"
)
_RESERVED = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "ILIKE", "BETWEEN", "ESCAPE"}
    | {"CASE", "WHEN", "THEN", "ELSE", "END", "COLLATE"}
)
_EXPRESSIONS = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "TYPE"}
)
_SHOWN_CLASSES = {"SUBQUERY": "a subquery", "WINDOW": "a window", "STAR": "*", "LAMBDA": "a lambda"}
# Functions whose result depends on the session, which is one of UTC; of dates and times, and of intervals.
_OF_MOMENTS = frozenset(
    {"+", "-", "age", "century", "date_diff", "date_part", "date_sub", "date_trunc", "datediff", "datepart", "datesub"}
    | {"datetrunc", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear", "decade", "era", "hour", "isodow"}
    | {"isoyear", "julian", "last_day", "make_timestamptz", "microsecond", "millennium", "millisecond", "minute"}
    | {"month", "monthname", "quarter", "second", "strftime", "time_bucket", "timezone", "timezone_hour"}
    | {"timezone_minute", "week", "weekday", "weekofyear", "year", "yearweek"}
)
_MACROS = frozenset(
    {"if", "ifnull", "nullif", "map_contains", "map_contains_entry", "map_contains_value", "fmod", "fdiv"}
    | {"list_append", "list_avg", "list_count", "list_max", "list_min", "list_prepend", "list_reverse", "list_sum"}
)


@dataclass(frozen=True)
class WhereCondition:
    """A condition that was parsed and checked.

    Attributes:
        text: The condition as it was written.
        sql: The same with names of columns in quotes where SQL needs them.
        tree: The expression in DuckDB's syntax tree.
        columns: The columns that it reads.
    """

    text: str
    sql: str
    tree: Node
    columns: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    """Offsets in the bytes of ``SELECT`` and ``sql``, each with its offset in ``text``."""

    def error(self, node: Node, message: str, advice: str | None = EXAMPLES) -> InvalidOption:
        """Return an error that points at ``node`` in the text."""
        starts = [item["query_location"] for item in walk(node) if item.get("query_location", 2**63) < 2**63]
        return self.error_at(min(starts, default=None), message, advice)

    def error_at(self, location: int | None, message: str, advice: str | None = EXAMPLES) -> InvalidOption:
        """Return an error that points at an offset of the parsed statement."""
        return located_error(self.text, self.offsets, location, message, advice)


def parse(text: str, schema: pa.Schema) -> WhereCondition:
    """Parse a condition.

    Args:
        text: The condition, a SQL expression.
        schema: The columns. Their names need no quotes even where they contain ``-`` or are keywords of SQL.

    Raises:
        InvalidOption: The text is not an expression, names a column or field that does not exist, or reads something
            else than the row; the message points at the position.
    """
    if len(text) > _LONGEST:
        raise InvalidOption(f"where: a condition of {len(text)} characters", advice=f"at most {_LONGEST}")
    sql, offsets = _quoted(text, schema.names)
    connection()
    try:
        tree = _tree(text, sql, offsets)
        condition = WhereCondition(text, sql, tree, (), offsets)
        columns = _checked(condition, schema)
    except RecursionError:
        raise located_error(text, offsets, None, "the condition is nested too deeply") from None
    return WhereCondition(text, sql, tree, columns, offsets)


def located_error(
    text: str,
    offsets: tuple[tuple[int, int], ...],
    location: int | None,
    message: str,
    advice: str | None = EXAMPLES,
) -> InvalidOption:
    """Return an error that shows the condition and points at an offset of the parsed statement."""
    at = 0
    if location is not None and location >= len(SELECT):
        start, origin = offsets[max(0, bisect_right(offsets, (location, len(text))) - 1)]
        prefix = text.encode()[len(text[:origin].encode()) :][: location - start]
        at = min(len(text), origin + len(prefix.decode("utf-8", "ignore")))
    shown = re.sub(r"\s", " ", text)
    return InvalidOption(f"where: {message}\n    {shown}\n    {' ' * at}^", advice=advice)


def children(node: Any) -> Iterator[Node]:
    """Yield the expressions directly below a node."""
    for value in node.values() if isinstance(node, dict) else node:
        if isinstance(value, dict) and "class" in value:
            yield value
        elif isinstance(value, (dict, list)):
            yield from children(value)


def walk(node: Node) -> Iterator[Node]:
    """Yield an expression and all below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def sql_of(*nodes: Node) -> str:
    """Return a SELECT of expressions as SQL text."""
    found = _one()
    statement = found["statements"][0]
    selected = {**found, "statements": [{**statement, "node": {**statement["node"], "select_list": nodes}}]}
    try:
        row = connection().execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(selected)]).fetchall()[0]
    except duckdb_errors() as error:
        raise InvalidOption(f"where: this release of DuckDB does not evaluate the condition: {error}") from error
    return str(row[0])


def matching_name(names: list[str], wanted: str) -> str | None:
    """Return the name that is written like ``wanted``, else the only one that differs from it in case alone."""
    found = matching_names(names, wanted)
    return found[0] if len(found) == 1 else None


def type_of(node: Node, schema: pa.Schema) -> pa.DataType | None:
    """Return the Arrow type of a column, of a field or element in it; None for other expressions."""
    if node["class"] == "COLUMN_REF":
        path = resolved_path(node, schema)
        if path is None:
            return None
        type_ = _plain(schema.field(path[0]).type)
        for field in path[1:]:
            type_ = _plain(type_.field(field).type)
        return type_
    if node.get("type") in ("STRUCT_EXTRACT", "ARRAY_EXTRACT"):
        base, key = node["children"]
        outer = type_of(base, schema)
        if outer is None:
            return None
        if pa.types.is_struct(outer):
            found = matching_name([item.name for item in outer], str(constant(key)))
            return None if found is None else _plain(outer.field(found).type)
        if pa.types.is_map(outer):
            return _plain(outer.item_type)
        return _plain(outer.value_type) if pa.types.is_list(outer) or pa.types.is_large_list(outer) else None
    return None


def is_text_of_number(node: Node, schema: pa.Schema) -> bool:
    """Return whether an expression is the text of a column of whole numbers, with constant text before or after it.

    Different numbers have different texts.
    """
    parts = [part for part in children(node) if part["class"] != "TYPE"]
    if node["class"] == "CAST" and sql_of(node).endswith((" AS VARCHAR)", " AS TEXT)")):
        return _is_whole_number(parts[0], schema)
    joined = [part for part in parts if constant(part) is None or is_null(part)]
    if node.get("function_name") != "||" or len(joined) != 1:
        return False
    return _is_whole_number(joined[0], schema) or is_text_of_number(joined[0], schema)


def _is_whole_number(node: Node, schema: pa.Schema) -> bool:
    path = resolved_path(node, schema) if node["class"] == "COLUMN_REF" else None
    return path is not None and len(path) == 1 and pa.types.is_integer(schema.field(path[0]).type)


def resolved_path(node: Node, schema: pa.Schema) -> list[str] | None:
    """Return the names of a column and of fields in it as the schema has them; None if one does not exist."""
    wanted, *fields = node["column_names"]
    name = matching_name(schema.names, wanted)
    if name is None:
        return None
    path, type_ = [name], _plain(schema.field(name).type)
    for field in fields:
        found = matching_name([item.name for item in type_], field) if pa.types.is_struct(type_) else None
        if found is None:
            return None
        path.append(found)
        type_ = _plain(type_.field(found).type)
    return path


def constant(node: Node) -> Any:
    """Return the text of a constant, None for other expressions. DuckDB 1 and 2 write constants differently."""
    if node["class"] != "CONSTANT":
        return None
    if "literal" in node:
        return node["literal"].get("text")
    return node["value"].get("value")


def is_null(node: Node) -> bool:
    """Return whether an expression is the constant NULL."""
    if node["class"] != "CONSTANT":
        return False
    return str(node["literal"]["kind"]).startswith("NULL") if "literal" in node else bool(node["value"]["is_null"])


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _quoted(text: str, columns: list[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Put names of columns in quotes, and fields after a dot; return the SQL and the offsets of its parts."""
    tokens = list(_TOKEN.finditer(text))
    ends = {token.end(): number for number, token in enumerate(tokens)}
    parts: list[str] = []
    offsets = []
    size, done, number, depth = len(SELECT), 0, 0, 0

    def add(part: str, origin: int) -> None:
        nonlocal size
        offsets.append((size, origin))
        parts.append(part)
        size += len(part.encode())

    while number < len(tokens):
        token = tokens[number]
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth > MAX_DEPTH:
            at = len(SELECT) + len(text[: token.start()].encode())
            raise located_error(text, ((len(SELECT), 0),), at, f"parentheses more than {MAX_DEPTH} deep")
        if token.lastgroup == "open":
            raise located_error(text, ((len(SELECT), 0),), len(SELECT) + len(text.encode()), "a quote is not closed")
        last, name = number, None
        if token.lastgroup == "word":
            at = token.start()
            found = [item for item in columns if item and text.startswith(item, at) and at + len(item) in ends]
            longest = max(found, key=len, default="")
            last = ends[at + len(longest)] if longest else number
            following = tokens[last + 1] if last + 1 < len(tokens) else None
            after_dot = number > 0 and tokens[number - 1][0] == "." and tokens[number - 1].end() == at
            is_call = following is not None and (following[0] == "(" or following.lastgroup == "string")
            if after_dot or (longest and (last > number or (token[0].upper() not in _RESERVED and not is_call))):
                name = longest if longest and not after_dot else token[0]
                last = last if longest and not after_dot else number
        elif token[0].startswith("`"):
            name = token[0][1:-1]
        if name is not None:
            add(text[done : token.start()], done)
            add('"' + name.replace('"', '""') + '"', token.start())
            done = tokens[last].end()
        number = last + 1
    add(text[done:], done)
    return "".join(parts), tuple(offsets)


@cache
def _one() -> Node:
    """Return the syntax tree of a SELECT of one constant; do not change it."""
    return _statement(f"{SELECT}1")


@cache
def _template() -> str:
    return json.dumps(_shape(_one()))


def _shape(statement: Node) -> Node:
    """Return a statement without its expression and without offsets."""
    node = statement["statements"][0]["node"]
    return {name: value for name, value in node.items() if name not in ("select_list", "from_table")} | {
        "from": node["from_table"]["type"] if node.get("from_table") else None,
        "selected": len(node.get("select_list", ())),
        "statements": len(statement["statements"]),
    }


def _statement(sql: str) -> Node:
    """Return the syntax tree; empty if DuckDB writes none, as of constants like b'ä'."""
    row = connection().execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0]
    found: Node = json.loads(row[0] or "{}")
    return found


def _tree(text: str, sql: str, offsets: tuple[tuple[int, int], ...]) -> Node:
    if not text.strip():
        raise located_error(text, offsets, None, "expected a condition")
    try:
        statement = _statement(SELECT + sql)
    except duckdb_errors() as error:
        deep = "depth" in str(error)
        raise located_error(
            text, offsets, None, "the condition is nested too deeply" if deep else str(error)
        ) from error
    if not statement:
        raise located_error(
            text, offsets, None, "a constant of bits or bytes has other characters than ASCII: b'…', x'…'"
        )
    if statement.get("error"):
        location = statement.get("position")
        message = re.sub(r"^syntax error at end of input$", "expected a value", str(statement["error_message"]))
        if "depth" in message:
            message = "the condition is nested too deeply"
        at = None if location is None else int(location)
        if at is None and message == "expected a value":
            at = len(SELECT + sql)
        raise located_error(text, offsets, at, message)
    if json.dumps(_shape(statement)) != _template():
        raise located_error(text, offsets, None, "expected one condition, which is an expression")
    found: Node = statement["statements"][0]["node"]["select_list"][0]
    if found.get("alias"):
        raise located_error(text, offsets, None, f"unexpected {found['alias']!r}")
    return found


def _checked(condition: WhereCondition, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that a condition reads. Raises InvalidOption for what reads anything else."""
    columns: dict[str, None] = {}
    # CASE x WHEN NULL is a comparison in the tree.
    branches = {id(item["when_expr"]) for node in walk(condition.tree) for item in node.get("case_checks", ())}
    for node in walk(condition.tree):
        kind = node["class"]
        if kind not in _EXPRESSIONS:
            shown = _SHOWN_CLASSES.get(kind, kind.lower().replace("_", " "))
            raise condition.error(node, f"{shown} is not supported", "a condition reads nothing but the row")
        if kind == "FUNCTION":
            _check_function(condition, node)
        elif kind == "COLUMN_REF":
            columns[_check_column(condition, node, schema)] = None
        elif (
            kind == "COMPARISON"
            and "DISTINCT" not in node["type"]
            and id(node) not in branches
            and any(map(is_null, children(node)))
            and any(item["class"] == "COLUMN_REF" for item in children(node))
        ):
            raise condition.error(node, "a comparison with NULL is never true", "write IS NULL or IS NOT NULL")
        elif node.get("type") in ("STRUCT_EXTRACT", "ARRAY_EXTRACT"):
            _check_field(condition, node, schema)
    return tuple(columns)


def _check_function(condition: WhereCondition, node: Node) -> None:
    name = str(node["function_name"]).lower()
    foreign = node.get("schema") not in (None, "", "main") or node.get("catalog") not in (None, "", "system")
    if name not in _functions() or foreign or node.get("distinct") or node.get("filter"):
        raise condition.error(
            node, f"the function {name} is not supported", "there are DuckDB's functions of the values of one row"
        )


@cache
def _functions() -> frozenset[str]:
    """Return the names of the functions whose result follows from their arguments."""
    rows = (
        connection()
        .execute("SELECT function_name, function_type, coalesce(stability, '') FROM duckdb_functions()")
        .fetchall()
    )
    other = {name for name, kind, stability in rows if kind != "scalar" or stability != "CONSISTENT"}
    known = frozenset(name for name, _, _ in rows if not name.startswith("__"))
    return (known - other) | _OF_MOMENTS | _MACROS


def _check_column(condition: WhereCondition, node: Node, schema: pa.Schema) -> str:
    wanted, *fields = node["column_names"]
    name = matching_name(schema.names, wanted)
    if name is None:
        hint = " (text goes in 'single quotes')" if '"' in condition.text else ""
        raise _unmatched(condition, node, wanted, schema.names, f"no column {wanted!r}{hint}")
    type_, path = _plain(schema.field(name).type), name
    for field in fields:
        type_ = _field_type(condition, node, type_, field, path)
        path = f"{path}.{field}"
    return name


def _check_field(condition: WhereCondition, node: Node, schema: pa.Schema) -> None:
    base, key = node["children"]
    outer = type_of(base, schema)
    if outer is not None and pa.types.is_struct(outer) and constant(key) is not None:
        _field_type(condition, node, outer, str(constant(key)), ".".join(base.get("column_names", ["the struct"])))


def _field_type(condition: WhereCondition, node: Node, outer: pa.DataType, name: str, path: str) -> pa.DataType:
    names = [field.name for field in outer] if pa.types.is_struct(outer) else []
    found = matching_name(names, name)
    if found is None or names.count(found) > 1:
        if not names:
            raise condition.error(node, f"no field {name!r} in {path}", f"{path} is {outer}")
        raise _unmatched(condition, node, name, names, f"no field {name!r} in {path}")
    return _plain(outer.field(found).type)


def _unmatched(condition: WhereCondition, node: Node, wanted: str, names: list[str], message: str) -> InvalidOption:
    """Return the error for a name that none has, or several in other cases."""
    alike = [f'"{name}"' for name in names if name.lower() == wanted.lower()]
    if not alike:
        return condition.error(node, message, f"there are: {', '.join(names)}")
    meant = " or ".join(dict.fromkeys(alike))
    return condition.error(
        node, f"{wanted!r} may mean {meant}, which differ by case only", f"write it exactly: {meant}"
    )
