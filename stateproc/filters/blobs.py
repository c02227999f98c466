r"""Bytes as text, as DuckDB writes them: printable ASCII as it is, other bytes as ``\xFF``."""

from __future__ import annotations

import base64
import binascii
import re

from stateproc.errors import InvalidOption

_LITERAL = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|[^\\\x80-\U0010ffff])*")
_ESCAPED = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_ADVICE = r"write bytes like '\x00\xFFabc', or from_base64('AP9hYmM=')"


def parse_blob(text: str) -> bytes:
    """Return the bytes that a literal means. Raises InvalidOption."""
    if _LITERAL.fullmatch(text) is None:
        raise InvalidOption(f"'{text}' is not a literal of bytes", advice=_ADVICE)
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode("ascii"))


def parse_base64(text: str) -> bytes:
    """Return the bytes that base64 text means. Raises InvalidOption."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidOption(f"'{text}' is not base64", advice=_ADVICE) from None


def blob_text(value: bytes) -> str:
    """Return bytes as text that means them."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\\'\"" else f"\\x{byte:02X}" for byte in value)
