"""Evaluate a condition on a batch. Nodes that are listed neither here nor in functions.py are refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, DecimalException
from inspect import signature
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from stateproc.errors import InvalidOption
from stateproc.filters.casts import cast
from stateproc.filters.comparison import compare, null_safe_equal
from stateproc.filters.elements import element
from stateproc.filters.exact_numbers import arithmetic, as_one_float, negated
from stateproc.filters.functions import FUNCTIONS, NAMED_FUNCTIONS, choose, date_part
from stateproc.filters.parser import WhereCondition, sql_of
from stateproc.filters.sql_value import EXACT, SqlValue, boolean, condition, field_of, matching_name
from stateproc.filters.text_functions import like

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
}
Result = TypeVar("Result")

_IGNORED = frozenset({"safe", "typed", "coalesce", "is_nvl", "is_null", "offset"})
"""Arguments of sqlglot's nodes that record what other dialects do, and do not change the meaning here."""


class Evaluator:
    """Evaluates the nodes of a condition on one batch.

    Args:
        where: The condition.
        batch: The rows.
        temporal: The batch's schema with dates and times as Arrow's types.
    """

    def __init__(self, where: WhereCondition, batch: pa.RecordBatch, temporal: pa.Schema) -> None:
        self._where, self._batch, self._temporal = where, batch, temporal

    def truth_values(self, node: exp.Expr) -> Any:
        """Return the truth values of a node. Raises InvalidOption, which points at it."""
        return self._located(node, lambda: condition(self.operand(node)))

    def operand(self, node: exp.Expr) -> SqlValue:
        """Return the value of a node. Raises InvalidOption, which points at it."""
        evaluate = _NODES.get(type(node))
        function = FUNCTIONS.get(type(node))
        if evaluate is not None:
            names, method = evaluate
            self._check_arguments(node, names)
            return self._located(node, lambda: method(self, node))
        if function is not None:
            self._check_arguments(node, function.arguments)
            values = [node.args[name] for name in function.arguments if node.args.get(name) is not None]
            nodes = [item for value in values for item in (value if isinstance(value, list) else [value])]
            return self._call(node, function.call, nodes)
        raise self._where.error(node, f"{sql_of(node)} is not supported", "see docs/cli.md for operators and functions")

    def _call(self, node: exp.Expr, function: Callable[..., SqlValue], arguments: list[exp.Expr]) -> SqlValue:
        try:
            signature(function).bind(*arguments)
        except TypeError:
            count = len(arguments)
            raise self._where.error(node, f"{sql_of(node)}: {count} is a wrong number of arguments") from None
        return self._located(node, lambda: function(*map(self.operand, arguments)))

    def _located(self, node: exp.Expr, compute: Callable[[], Result]) -> Result:
        try:
            return compute()
        except InvalidOption as error:
            if error.message.startswith("where: "):
                raise
            raise self._where.error(node, error.message, error.advice) from error
        except pa.ArrowException as error:
            raise self._where.error(node, f"{sql_of(node)} cannot be calculated: {error}") from error

    def _check_arguments(self, node: exp.Expr, names: tuple[str, ...]) -> None:
        """Refuse what this release of sqlglot parses and the evaluation would not notice."""
        extra = [name for name, value in node.args.items() if value and name not in names and name not in _IGNORED]
        if extra:
            raise self._where.error(node, f"{sql_of(node)}: {', '.join(extra)} is not supported")

    def _connect(self, node: exp.Expr, combine: Callable[[Any, Any], Any]) -> SqlValue:
        first, *others = node.flatten()
        result = self.truth_values(first)
        for other in others:
            result = combine(result, self.truth_values(other))
        return boolean(result)

    def _and(self, node: exp.Expr) -> SqlValue:
        return self._connect(node, pc.and_kleene)

    def _or(self, node: exp.Expr) -> SqlValue:
        return self._connect(node, pc.or_kleene)

    def _not(self, node: exp.Expr) -> SqlValue:
        return boolean(pc.invert(self.truth_values(node.this)))

    def _paren(self, node: exp.Expr) -> SqlValue:
        return self.operand(node.this)

    def _compare(self, node: exp.Expr) -> SqlValue:
        for side in (node.this, node.expression):
            if isinstance(side, exp.Null):
                raise self._where.error(node, "a comparison with NULL is never true", "write IS NULL or IS NOT NULL")
        return boolean(compare(_COMPARISONS[type(node)], self.operand(node.this), self.operand(node.expression)))

    def _null_safe(self, node: exp.Expr) -> SqlValue:
        equal = null_safe_equal(self.operand(node.this), self.operand(node.expression))
        return boolean(pc.invert(equal) if isinstance(node, exp.NullSafeNEQ) else equal)

    def _between(self, node: exp.Expr) -> SqlValue:
        value, low, high = as_one_float(*(self.operand(node.args[name]) for name in ("this", "low", "high")))
        return boolean(pc.and_kleene(compare(">=", value, low), compare("<=", value, high)))

    def _in(self, node: exp.Expr) -> SqlValue:
        if not node.expressions:
            raise self._where.error(node, "expected a value in IN (…)")
        value, first, *others = as_one_float(*map(self.operand, [node.this, *node.expressions]))
        result = compare("=", value, first)
        for other in others:
            result = pc.or_kleene(result, compare("=", value, other))
        return boolean(result)

    def _is(self, node: exp.Expr) -> SqlValue:
        if isinstance(node.expression, exp.Null):
            return boolean(pc.is_null(self.operand(node.this).values))
        if not isinstance(node.expression, exp.Boolean):
            raise self._where.error(node, "IS needs NULL, TRUE or FALSE")
        truth = self.truth_values(node.this)
        return boolean(pc.fill_null(pc.equal(truth, node.expression.this), False))

    def _like(self, node: exp.Expr) -> SqlValue:
        escape = None
        if isinstance(node, exp.Escape):
            node, escape = node.this, node.expression.name
            if not isinstance(node, exp.Like | exp.ILike):
                raise self._where.error(node, "ESCAPE belongs to LIKE")
            self._check_arguments(node, ("this", "expression", "negate"))
        operands = self.operand(node.this), self.operand(node.expression)
        mask = like(*operands, escape=escape, ignore_case=isinstance(node, exp.ILike))
        return boolean(pc.invert(mask) if node.args.get("negate") else mask)

    def _arithmetic(self, node: exp.Expr) -> SqlValue:
        operands = [self.operand(node.this), self.operand(node.expression)]
        if any(operand.kind not in ("number", "text", "null") for operand in operands):
            shown = " and ".join(operand.shown for operand in operands)
            raise self._where.error(node, f"cannot calculate with {shown}", "arithmetic needs numbers")
        return arithmetic(_ARITHMETIC[type(node)], *operands)

    def _negative(self, node: exp.Expr) -> SqlValue:
        operand = self.operand(node.this)
        if operand.kind not in ("number", "text", "null"):
            raise self._where.error(node, f"{operand.shown} is not a number")
        return negated(operand)

    def _case(self, node: exp.Expr) -> SqlValue:
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        default = node.args.get("default" if isinstance(node, exp.Case) else "false") or exp.Null()
        subject = self.operand(node.this) if isinstance(node, exp.Case) and node.this else None
        conditions = [
            self.truth_values(branch.this) if subject is None else compare("=", subject, self.operand(branch.this))
            for branch in branches
        ]
        values = [self.operand(branch.args["true"]) for branch in branches]
        return choose(conditions, values, self.operand(default))

    def _cast(self, node: exp.Expr) -> SqlValue:
        return cast(self.operand(node.this), node.args["to"], lenient=isinstance(node, exp.TryCast))

    def _extract(self, node: exp.Expr) -> SqlValue:
        return date_part(node.name, self.operand(node.expression))

    def _named(self, node: exp.Expr) -> SqlValue:
        function = NAMED_FUNCTIONS.get(node.name.upper())
        if function is None:
            raise self._where.error(node, f"unknown function {node.name}", "see docs/cli.md for the functions")
        return self._call(node, function, node.expressions)

    def _literal(self, node: exp.Expr) -> SqlValue:
        if node.is_string:
            return SqlValue(pa.scalar(node.this), pa.string())
        try:
            number = Decimal(node.this)
        except DecimalException:
            raise self._where.error(node, f"{node.this} is not a number") from None
        if "e" in node.this.lower():
            return SqlValue(pa.scalar(float(number), pa.float64()), pa.float64())
        return SqlValue(pa.scalar(str(number)), EXACT)

    def _raw_string(self, node: exp.Expr) -> SqlValue:
        return SqlValue(pa.scalar(node.this), pa.string())

    def _boolean(self, node: exp.Expr) -> SqlValue:
        return boolean(pa.scalar(bool(node.this)))

    def _null(self, node: exp.Expr) -> SqlValue:
        return SqlValue(pa.scalar(None), pa.null())

    def _column(self, node: exp.Expr) -> SqlValue:
        assert isinstance(node, exp.Column)
        wanted, *fields = (part.name for part in node.parts)
        name = matching_name(self._batch.schema.names, wanted)
        if name is None:
            names = ", ".join(self._batch.schema.names)
            hint = " (text goes in 'single quotes')" if '"' in self._where.text else ""
            raise self._where.error(node, f"no column {wanted!r}{hint}", f"there are: {names}")
        column, type_ = self._batch.column(name), self._temporal.field(name).type
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        operand, path = SqlValue(column, type_.value_type if pa.types.is_dictionary(type_) else type_), name
        for field in fields:
            operand = self._field(node, operand, field, path)
            path = f"{path}.{field}"
        return operand

    def _dot(self, node: exp.Expr) -> SqlValue:
        if not isinstance(node.expression, exp.Identifier):
            raise self._where.error(node, f"{sql_of(node)} is not supported", "a field's name follows the dot")
        return self._field(node, self.operand(node.this), node.expression.name, sql_of(node.this))

    def _field(self, node: exp.Expr, operand: SqlValue, name: str, path: str) -> SqlValue:
        try:
            return field_of(operand, name)
        except KeyError:
            names = [field.name for field in operand.type] if operand.kind == "struct" else []
            advice = f"there are: {', '.join(names)}" if names else f"{path} is {operand.shown}"
            raise self._where.error(node, f"no field {name!r} in {path}", advice) from None

    def _bracket(self, node: exp.Expr) -> SqlValue:
        if len(node.expressions) != 1:
            raise self._where.error(node, "expected one index or one key in [ ]")
        collection, key = self.operand(node.this), self.operand(node.expressions[0])
        if collection.kind == "struct" and key.is_scalar and key.kind == "text":
            return self._field(node, collection, key.values.as_py(), sql_of(node.this))
        return element(collection, key)


_BINARY = ("this", "expression")
_Method = Callable[[Evaluator, exp.Expr], SqlValue]
_NODES: dict[type[exp.Expr], tuple[tuple[str, ...], _Method]] = {
    exp.And: (_BINARY, Evaluator._and),
    exp.Or: (_BINARY, Evaluator._or),
    exp.Not: (("this",), Evaluator._not),
    exp.Paren: (("this",), Evaluator._paren),
    **dict.fromkeys(_COMPARISONS, (_BINARY, Evaluator._compare)),
    **dict.fromkeys(_ARITHMETIC, (_BINARY, Evaluator._arithmetic)),
    exp.Neg: (("this",), Evaluator._negative),
    exp.NullSafeEQ: (_BINARY, Evaluator._null_safe),
    exp.NullSafeNEQ: (_BINARY, Evaluator._null_safe),
    exp.Between: (("this", "low", "high"), Evaluator._between),
    exp.In: (("this", "expressions"), Evaluator._in),
    exp.Is: (_BINARY, Evaluator._is),
    exp.Like: ((*_BINARY, "negate"), Evaluator._like),
    exp.ILike: ((*_BINARY, "negate"), Evaluator._like),
    exp.Escape: (_BINARY, Evaluator._like),
    exp.Case: (("this", "ifs", "default"), Evaluator._case),
    exp.If: (("this", "true", "false"), Evaluator._case),
    exp.Cast: (("this", "to"), Evaluator._cast),
    exp.TryCast: (("this", "to"), Evaluator._cast),
    exp.Extract: (_BINARY, Evaluator._extract),
    exp.Anonymous: (("this", "expressions"), Evaluator._named),
    exp.Literal: (("this", "is_string"), Evaluator._literal),
    exp.RawString: (("this",), Evaluator._raw_string),
    exp.Boolean: (("this",), Evaluator._boolean),
    exp.Null: ((), Evaluator._null),
    exp.Column: (("this", "table", "db", "catalog"), Evaluator._column),
    exp.Dot: (_BINARY, Evaluator._dot),
    exp.Bracket: (("this", "expressions"), Evaluator._bracket),
}
