"""Parse the types of fields in class descriptions: Java names, short names, type arguments, arrays."""

from __future__ import annotations

import re
from dataclasses import replace

from stateproc.codec.kryo.types import BOX_OF, OBJECT, PRIMITIVES, FieldType
from stateproc.errors import InvalidOption

# Short names of classes. Other names are full class names. Case distinguishes `date` (LocalDate) from `Date`.
ALIASES: dict[str, str] = {
    **dict.fromkeys(("String", "string", "str", "text", "varchar"), "java.lang.String"),
    **{name: f"java.lang.{name}" for name in ("Boolean", "Byte", "Character", "Short", "Integer", "Long")},
    **{name: f"java.lang.{name}" for name in ("Float", "Double", "Object", "Number", "Class", "Void")},
    "Iterable": "java.lang.Iterable",
    "Int": "java.lang.Integer",
    "Char": "java.lang.Character",
    "object": OBJECT,
    "any": OBJECT,
    "bool": "boolean",
    "integer": "int",
    "bigint": "long",
    **dict.fromkeys(("BigDecimal", "decimal"), "java.math.BigDecimal"),
    **dict.fromkeys(("BigInteger", "biginteger"), "java.math.BigInteger"),
    **dict.fromkeys(("UUID", "uuid"), "java.util.UUID"),
    "date": "java.time.LocalDate",
    "time": "java.time.LocalTime",
    "timestamp": "java.time.LocalDateTime",
    "instant": "java.time.Instant",
    "Date": "java.util.Date",
    "Timestamp": "java.sql.Timestamp",
    **{name: f"java.time.{name}" for name in ("LocalDate", "LocalTime", "LocalDateTime", "Instant")},
    **{name: f"java.time.{name}" for name in ("Duration", "Period", "ZonedDateTime", "ZoneOffset", "Year")},
    "OffsetDateTime": "java.time.OffsetDateTime",
    **dict.fromkeys(("list", "List"), "java.util.List"),
    **dict.fromkeys(("set", "Set"), "java.util.Set"),
    **dict.fromkeys(("map", "Map"), "java.util.Map"),
    **dict.fromkeys(("array", "Array"), "[]"),
    **dict.fromkeys(("Optional", "optional"), "java.util.Optional"),
    **{name: f"java.util.{name}" for name in ("Collection", "ArrayList", "LinkedList", "HashSet", "HashMap")},
    # Scala's names of its own types; numbers are primitive in fields.
    "Option": "scala.Option",
    "Either": "scala.util.Either",
    **{f"scala.{name}": f"scala.collection.immutable.{name}" for name in ("List", "Vector", "Set", "Map", "Range")},
    "scala.Seq": "scala.collection.Seq",
    "scala.Either": "scala.util.Either",
    **{f"scala.{name}": f"scala.math.{name}" for name in ("BigDecimal", "BigInt")},
    **{
        f"scala.{name}": name.lower() for name in ("Boolean", "Byte", "Char", "Short", "Int", "Long", "Float", "Double")
    },
    **{f"scala.{name}": OBJECT for name in ("Any", "AnyRef")},
    "scala.String": "java.lang.String",
    "binary": "byte[]",
    "bytes": "byte[]",
}
_TOKEN = re.compile(r"\s*([\w.$-]+|\[\]|[<>,?&])")
_MODIFIERS = {"final": True, "record": True, "open": False}
_MAX_DEPTH = 32
_LONGEST_TYPE, _SHOWN = 1 << 13, 100


def parse_type(text: str) -> FieldType:
    """Parse a type such as ``int``, ``list<String>``, ``java.util.Map<UUID, long[]>``.

    Raises:
        InvalidOption: the text is no type. Whether a class of that name exists is not checked.
    """
    tokens = _tokens(text)
    type_ = _type(tokens, text, 0)
    if tokens:
        raise _bad(text, f"{tokens[0]!r} is too much")
    return type_


def without_modifiers(heading: str) -> str:
    """Return the class name of a heading, without modifiers and type variables."""
    return next((word for word in re.findall(r"[\w.$-]+", heading) if word not in _MODIFIERS), "")


def _tokens(text: str) -> list[str]:
    if len(text) > _LONGEST_TYPE:
        raise _bad(text, f"it has over {_LONGEST_TYPE} characters")
    tokens, at = [], 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise _bad(text, f"what is {text[at:].strip()[0]!r}?")
        tokens.append(found[1])
        at = found.end()
    return tokens


def _type(tokens: list[str], text: str, depth: int) -> FieldType:
    if depth > _MAX_DEPTH:
        raise _bad(text, "it is nested too deep")
    final: bool | None = None
    while len(tokens) > 1 and tokens[0] in _MODIFIERS:
        final = _MODIFIERS[tokens.pop(0)]
    if not tokens or tokens[0] in ("<", ">", ",", "[]", "&"):
        raise _bad(text, "a type is missing")
    name = tokens.pop(0)
    if name == "?":
        if tokens and tokens[0] in ("extends", "super"):
            tokens.pop(0)
            return replace(_type(tokens, text, depth + 1), stands_for="?")
        return FieldType(OBJECT, stands_for="?")
    type_ = _named(name, final, tokens, text, depth)
    while tokens and tokens[0] == "[]":
        depth += 1
        if depth > _MAX_DEPTH:
            raise _bad(text, "it is nested too deep")
        tokens.pop(0)
        type_ = FieldType("[]", (type_,))
    return type_


def _named(name: str, final: bool | None, tokens: list[str], text: str, depth: int) -> FieldType:
    full = ALIASES.get(name, name)
    args: list[FieldType] = []
    if tokens and tokens[0] == "<":
        closing = "<"
        while closing in ("<", ","):
            tokens.pop(0)
            args.append(_type(tokens, text, depth + 1))
            closing = tokens[0] if tokens else ""
        if closing != ">":
            raise _bad(text, "'>' is missing")
        tokens.pop(0)
    if full == "byte[]":
        return FieldType("[]", (FieldType("byte"),))
    if (full == "[]") != (full == "[]" and len(args) == 1) or (full in PRIMITIVES and args):
        raise _bad(text, f"{name!r} has {len(args)} type arguments")
    if full.startswith(("java.util.List", "java.util.Map", "java.util.Set")) and args:
        wanted = 2 if full == "java.util.Map" else 1
        if len(args) != wanted and full in ("java.util.List", "java.util.Map", "java.util.Set"):
            raise _bad(text, f"{name!r} has {len(args)} type arguments, not {wanted}")
    # A primitive type argument stands for its box: ``list<int>`` is a List<Integer>.
    boxed = tuple(arg if full == "[]" else (FieldType(BOX_OF[arg.name]) if arg.primitive else arg) for arg in args)
    return FieldType(full, boxed, final)


def shortened(text: str) -> str:
    """Cut text from a description to a length that an error message can show."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _bad(text: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"{shortened(text)!r} is no type: {why}",
        advice="types are Java's or short: int, Long, String, list<T>, map<K, V>, T[], decimal, date, "
        "Instant, UUID, or the name of a described class",
    )
