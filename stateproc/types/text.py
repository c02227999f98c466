"""Parse types: ``Tuple2<Long, String>``, ``Pojo com.acme.Order {id: Long, tags: List<String>}``.

A serializer's ``type_name`` parses back to it, if the name contains all of the type's parameters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from stateproc.errors import InvalidOption, MissingFile, Where, located
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.java.field_types import ALIASES
from stateproc.serializers.runtime.streaming import BufferEntry, StreamElement, Union
from stateproc.types import composite as c
from stateproc.types import scalars as s
from stateproc.types.composite import Avro, Extracted

MAX_DEPTH, MAX_TEXT = 32, 1 << 20
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[\w$]+(?:\.[\w$]+)*")
_ADVICE = (
    "types are such as Long, String, Instant, byte[], Tuple2<Long, String>, Row<Long, String>, List<String>, "
    "Map<String, Long>, Pojo com.acme.Order {id: Long}, Enum com.acme.State {NEW, PAID}, ROW<id BIGINT>, "
    'Avro {"type": …}, Nullable<Long>, Kryo com.acme.Thing; see docs/naming-types.md'
)
_BY_CLASS: dict[str, Serializer] = {
    "java.lang.Boolean": s.BOOLEAN,
    "java.lang.Byte": s.BYTE,
    "java.lang.Short": s.SHORT,
    "java.lang.Integer": s.INT,
    "java.lang.Long": s.LONG,
    "java.lang.Float": s.FLOAT,
    "java.lang.Double": s.DOUBLE,
    "java.lang.Character": s.CHAR,
    "java.lang.String": s.STRING,
    "java.lang.Void": s.VOID,
    "java.math.BigInteger": s.BIG_INT,
    "java.math.BigDecimal": s.BIG_DEC,
    "java.time.Instant": s.INSTANT,
    "java.time.LocalDate": s.LOCAL_DATE,
    "java.time.LocalTime": s.LOCAL_TIME,
    "java.time.LocalDateTime": s.LOCAL_DATE_TIME,
    "java.util.Date": s.DATE,
    "java.util.UUID": s.UUID,
    "java.sql.Date": s.SQL_DATE,
    "java.sql.Time": s.SQL_TIME,
    "java.sql.Timestamp": s.SQL_TIMESTAMP,
    "boolean": s.BOOLEAN,
    "byte": s.BYTE,
    "short": s.SHORT,
    "int": s.INT,
    "long": s.LONG,
    "float": s.FLOAT,
    "double": s.DOUBLE,
    "char": s.CHAR,
}
_NAMED: dict[str, Serializer] = {
    **{name: value for name, value in vars(s).items() if name.isupper() and isinstance(value, Serializer)},
    **s.VALUES,
    **dict.fromkeys(("bytes", "binary"), s.BYTES),
    "TINYINT": s.BYTE,
    "SMALLINT": s.SHORT,
    "INTEGER": s.INT,
    "BIGINT": s.LONG,
    "Void": s.VOID,
    "Unit": s.UNIT,
    "Tuple0": c.Tuple(),
    "Serializable": s.JAVA,
    "TimeWindow": s.TIME_WINDOW,
    "GlobalWindow": s.GLOBAL_WINDOW,
    "VoidNamespace": s.VOID_NAMESPACE,
}
_Make = Callable[..., Serializer]
# Word → (number of types in brackets, function that combines them); None: any number.
_GENERIC: dict[str, tuple[int | None, _Make]] = {
    "Tuple": (None, c.Tuple),
    "Row": (None, c.Row),
    "Array": (1, c.Array),
    "Nullable": (1, c.Nullable),
    "Either": (2, c.Either),
    "Option": (1, c.Option),
    "Ttl": (1, c.Ttl),
    "Timer": (2, c.Timer),
    "TaggedUnion": (2, Union),
    "StreamElement": (1, StreamElement),
    "BufferEntry": (1, BufferEntry),
    **dict.fromkeys(("List", "list"), (1, c.List)),
    **dict.fromkeys(("Set", "set"), (1, c.Set)),
    **dict.fromkeys(("Map", "map"), (2, c.Map)),
}
_SQL = frozenset(
    (
        "ROW",
        "ARRAY",
        "MAP",
        "MULTISET",
        "DECIMAL",
        "CHAR",
        "VARCHAR",
        "BINARY",
        "VARBINARY",
        "TIMESTAMP",
        "TIME",
        "TIMESTAMP_LTZ",
    )
)
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}


def parse(text: str) -> Serializer:
    """Parse the text of a type.

    Args:
        text: such as ``Tuple2<Long, String>`` or ``Pojo com.acme.Order {id: Long}``; see docs/naming-types.md.

    Raises:
        InvalidOption: the text is no type; the message contains the position of the error.
    """
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise InvalidOption(f"no text of a type: {str(text)[:60]!r}", advice=_ADVICE)
    parser = _TypeTextParser(text)
    made = parser.type(0)
    parser.space()
    if parser.at < len(text):
        raise parser.bad(f"{text[parser.at :][:20]!r} is too much")
    return made


class _TypeTextParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def bad(self, why: str) -> InvalidOption:
        shown = self.text if len(self.text) <= 120 else self.text[:120] + "…"
        return InvalidOption(f"{shown!r} is no type: {why} (at character {self.at + 1})", advice=_ADVICE)

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def follows(self, mark: str) -> bool:
        """Consume ``mark`` if it is next, and return whether it was."""
        self.space()
        found = self.text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def expect(self, mark: str) -> None:
        if not self.follows(mark):
            raise self.bad(f"{mark!r} is missing")

    def word(self, what: str) -> str:
        self.space()
        found = _WORD.match(self.text, self.at)
        if found is None:
            raise self.bad(f"{what} is missing")
        self.at = found.end()
        return found[0]

    def type(self, depth: int) -> Serializer:
        if depth > MAX_DEPTH:
            raise self.bad("it is nested too deep")
        self.space()
        start = self.at
        word = self.word("a type")
        if word in s.PRIMITIVE_ARRAY_OF and self.follows("[]"):
            made = s.PRIMITIVE_ARRAY_OF[word]
        else:
            made = self.named(word, start, depth)
        while True:
            depth += 1
            if depth > MAX_DEPTH + 1:
                raise self.bad("it is nested too deep")
            if self.follows("[]"):
                made = c.Array(made)
            elif self.follows("?"):
                made = c.Nullable(made)
            else:
                return made

    def named(self, word: str, start: int, depth: int) -> Serializer:
        read = _FORMS.get(word)
        if read is not None:
            return read(self, depth)
        self.space()
        mark = self.text[self.at : self.at + 1]
        if word in _SQL and mark in ("<", "("):
            return c.Sql(self.sql(start))
        if mark == "(":
            name = f"scala.{word}" if re.fullmatch(r"Tuple\d+", word) else word
            return c.CaseClass(name, *self.bracketed(depth))
        if mark == "<" or (mark == "[" and word == "Option"):
            return self.generic(word, depth)
        found = _NAMED.get(word) or _BY_CLASS.get(ALIASES.get(word, word))
        if found is not None:
            return found
        raise self.unknown(word)

    def unknown(self, word: str) -> InvalidOption:
        if word in _GENERIC:
            return self.bad(f"the types in {word}<…> are missing")
        full = ALIASES.get(word, word)
        if "." not in full:
            return self.bad(f"there is no {word!r}")
        return InvalidOption(
            f"{self.text[:120]!r} is no type: nothing says what the class {full!r} is",
            advice=f"Pojo {full} {{field: type, …}}, Enum {full} {{A, B}}, {full}(type, …) for a case class, "
            f"or Kryo {full}",
        )

    def generic(self, word: str, depth: int) -> Serializer:
        numbered = re.fullmatch(r"Tuple(\d{1,2})", word)
        wanted, make = (int(numbered[1]), c.Tuple) if numbered else _GENERIC.get(word, (None, None))
        if make is None:
            raise self.bad(f"there is no {word}<…>")
        parts = self.bracketed(depth)
        if wanted is not None and len(parts) != wanted:
            raise self.bad(f"{word} has {len(parts)} types in brackets, not {wanted}")
        return make(*parts)

    def bracketed(self, depth: int) -> list[Serializer]:
        """Parse types in brackets of any kind."""
        self.space()
        opening = self.text[self.at]
        self.at += 1
        parts: list[Serializer] = []
        while not self.follows(_CLOSING[opening]):
            if parts:
                self.expect(",")
            parts.append(self.type(depth + 1))
        return parts

    def pojo(self, depth: int) -> Serializer:
        name = self.word("a class name")
        self.expect("{")
        fields: dict[str, Serializer] = {}
        while not self.follows("}"):
            if fields:
                self.expect(",")
            field = self.word("a field's name")
            if field in fields:
                raise self.bad(f"{name} has two fields {field!r}")
            self.expect(":")
            fields[field] = self.type(depth + 1)
        return c.Pojo(name, fields)

    def enum(self, depth: int) -> Serializer:
        name = self.word("a class name")
        self.expect("{")
        constants: list[str] = []
        while not self.follows("}"):
            if constants:
                self.expect(",")
            constants.append(self.word("a constant"))
        return c.Enum(name, constants)

    def case_class(self, depth: int) -> Serializer:
        name = self.word("a class name")
        self.space()
        if self.text[self.at : self.at + 1] != "(":
            raise self.bad("'(' is missing")
        return c.CaseClass(name, *self.bracketed(depth))

    def kryo(self, depth: int) -> Serializer:
        return c.Kryo(self.word("a class name"))

    def avro(self, depth: int) -> Serializer:
        """Parse a class name (none for GenericRecord) and the schema's JSON."""
        self.space()
        found = _WORD.match(self.text, self.at)
        name = c.GENERIC_RECORD
        if found is not None and self.text[self.at] not in '"[{':
            name, self.at = found[0], found.end()
            self.space()
            if self.text[self.at : self.at + 1] != "{":
                raise self.bad(f"the Avro schema of the class {name} is missing")
        try:
            _, end = json.JSONDecoder().raw_decode(self.text, self.at)
        except (ValueError, RecursionError) as error:
            raise self.bad(f"the Avro schema is no JSON: {error}") from error
        start, self.at = self.at, end
        return c.Avro(self.text[start:end], name)

    def sql_type(self, depth: int) -> Serializer:
        """Parse a SQL type after ``SQL``, up to the next separator or closing bracket."""
        self.space()
        return c.Sql(self.sql(self.at))

    def sql(self, start: int) -> str:
        """Return the text of a SQL type from ``start`` to a comma or bracket that does not belong to it."""
        self.at = start
        open_brackets = 0
        quoted = ""
        while self.at < len(self.text):
            mark = self.text[self.at]
            if quoted:
                quoted = "" if mark == quoted else quoted
            elif mark in "`'":
                quoted = mark
            elif mark in "<(":
                open_brackets += 1
            elif mark in ">)":
                if not open_brackets:
                    break
                open_brackets -= 1
            elif mark in ",}]?[" and not open_brackets:
                break
            self.at += 1
        return self.text[start : self.at].strip()


_FORMS: dict[str, Callable[[_TypeTextParser, int], Serializer]] = {
    "Pojo": _TypeTextParser.pojo,
    "Enum": _TypeTextParser.enum,
    "CaseClass": _TypeTextParser.case_class,
    "Kryo": _TypeTextParser.kryo,
    "Avro": _TypeTextParser.avro,
    "SQL": _TypeTextParser.sql_type,
}


# Read a type from a file.


def read_type(path: str) -> Serializer:
    """Return the type that a local file describes.

    Args:
        path: A file with the text of a type; or JSON: an Avro schema, or descriptions of classes
            (docs/kryo-and-classes.md), of which the first is the type.

    Raises:
        MissingFile: The file cannot be read.
        InvalidOption: It describes no type.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_TEXT + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFile(f"the type cannot be read: {error}", where=Where(file=path)) from error
    with located(InvalidOption, file=path):
        return _parsed(text)


def _parsed(text: str) -> Serializer:
    if not text.lstrip().startswith("{"):
        return parse(text.strip())
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(
            f"no JSON: {error}", advice='give an Avro schema, or descriptions of classes: {"com.acme.Order": {…}}'
        ) from error
    if isinstance(content.get("type"), str):
        return Avro(content)
    return Extracted(next(iter(content), ""), content)
