"""Leave credentials out of text: of URLs, and of the options of file systems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MASK = "***"
_PASSWORD = re.compile(r"(://[^/\s:@'\"]*:)[^/\s@'\"]+(?=@)")
"""The password of ``scheme://user:password@host``."""
_TOKEN = re.compile(
    r"([?&;][\w.-]*(?:sig|signature|token|secret|password|credential|accesskeyid|access_key)[\w.-]*=)[^&;\s'\"<>\])}]+",
    re.IGNORECASE,
)
"""The value of a query parameter that signs a request, such as those of presigned URLs and shared access signatures."""
_SECRET_NAME = re.compile(
    r"secret|password|passwd|token|credential|signature|private|connection_string|sas|(^|_)key$", re.IGNORECASE
)
_SHORTEST = 4
"""Characters of the shortest value that is masked wherever it occurs: a shorter one is part of many words."""


def redacted(text: str, options: Mapping[str, Any] | None = None) -> str:
    """Return text without passwords and signatures of URLs, and without the secrets among storage options.

    Args:
        text: Of an error, a log line or a report.
        options: Storage options; values whose names say that they are secret are masked, also inside nested ones.
    """
    if "://" in text:
        text = _PASSWORD.sub(rf"\g<1>{MASK}", text)
    if "=" in text:
        text = _TOKEN.sub(rf"\g<1>{MASK}", text)
    for secret in sorted(set(_secrets(options or {})), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def shown_cause(error: BaseException, options: Mapping[str, Any] | None = None) -> BaseException | None:
    """Return the error as the cause of another, which is printed with it; None if its text has credentials."""
    text = str(error)
    return error if redacted(text, options) == text else None


def has_password(uri: str) -> bool:
    """Return whether a URI contains a password before its host."""
    return _PASSWORD.search(uri) is not None


def _secrets(options: Mapping[str, Any], secret: bool = False) -> Iterator[str]:
    for name, value in options.items():
        named = secret or _SECRET_NAME.search(str(name)) is not None
        if isinstance(value, Mapping):
            yield from _secrets(value, named)
        elif named and isinstance(value, str) and len(value) >= _SHORTEST:
            yield value
