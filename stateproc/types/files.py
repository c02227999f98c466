"""Read a type from a file: its text, an Avro schema, or descriptions of classes."""

from __future__ import annotations

import json

from stateproc.errors import InvalidOption, MissingFile, Where
from stateproc.serializers.core.base import Serializer
from stateproc.types.composite import Avro, Extracted
from stateproc.types.text import MAX_TEXT, parse


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
    try:
        return _parsed(text)
    except InvalidOption as error:
        raise error.at(file=path) from error


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
