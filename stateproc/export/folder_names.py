"""Name the folders of operators and states: readable, valid on every file system, and unique."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

_MOST_BYTES = 120


def folder_name(name: str) -> str:
    """Return a name for a folder: blanks as hyphens, and %XX for what some file system or reader treats specially."""
    hyphened = name.replace(" ", "-")
    safe = "".join(sign if _is_plain(sign) else quote(sign, safe="", errors="replace") for sign in hyphened) or "%"
    if safe[0] in "._":
        # Spark and pyarrow ignore such folders.
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if len(safe.encode("utf-8", "replace")) <= _MOST_BYTES:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{safe.encode('utf-8', 'replace')[: _MOST_BYTES - 13].decode('utf-8', 'ignore')}-{digest}"


def _is_plain(sign: str) -> bool:
    return sign.isalnum() or sign in "-_.()@+,"


class FolderNames:
    """The folders of one export; names that differ only in case are not used twice."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, *names: str) -> str:
        """Return the path of a folder for these names, from outside in, and remember it."""
        path = "/".join(map(folder_name, names))
        chosen, number = path, 1
        while chosen.casefold() in self._taken:
            number += 1
            chosen = f"{path}-{number}"
        self._taken.add(chosen.casefold())
        return chosen

    def keep(self, path: str) -> None:
        """Remember a folder of an earlier run."""
        self._taken.add(path.casefold())
