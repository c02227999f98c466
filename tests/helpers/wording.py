"""List phrases that the project's style replaces by standard terms: `python -m tests.helpers.wording [--all]`.

The exit code is 1 if a file has such a phrase and is neither in `LITERAL_USES` nor in `OUTSTANDING`. `--all` lists the
phrases of outstanding files, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

from tests.helpers.paths import ROOT

PHRASES = (
    *("told", "tells?", "telling", "lies", "lie in", "lay", "lays", "laid", "lying", "mend(?:s|ed|ing)?", "behind"),
    *("dealt out", "deals? out", "hand(?:s|ed|ing) over", "handing[_-]over", "brought to", "in the place of"),
    # A possessive without the thing that is owned: "an option of Spark's".
    r"of (?:Spark|Flink|Java|RocksDB|Arrow|Kafka|Kryo|Delta|Python|numba|the user)'s(?=\W*$|[.,;:)]| that | which )",
    *("of ours", "stands? (?:in|under|beside)", "the house", "rooms?", "doors?", "what it takes", "what there is"),
    *("what is left", "taken in", "takes? in", "whose turn", "is there for", "by and by"),
)
"""Regular expressions of whole words; see the table in CONTRIBUTING.md for what to write instead."""
LITERAL_USES: dict[str, tuple[str, ...]] = {
    # The table itself.
    "tests/helpers/wording.py": (r".*",),
    # A key of the manifests: the times between which a job recorded its states.
    "tests/helpers/fixtures.py": (r'manifest\["told"\]',),
    "tests/helpers/flink/publication.py": (r'"told": \[int',),
    "tests/unit/writers/rewrite/test_raw_copy_changes.py": (r'manifest\["told"\]',),
}
"""File → regular expressions of lines in which a phrase is meant literally."""
OUTSTANDING: tuple[str, ...] = ()
"""Files and folders whose phrases are still to be replaced; remove each when it is done."""

_PHRASE = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(PHRASES)})(?![A-Za-z])", re.IGNORECASE)
_SUFFIXES = (".py", ".md", ".ipynb", ".toml", "Makefile")


def project_files() -> list[str]:
    """Return the tracked text files with sentences for people, by their path from the root of the repository."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if name.endswith(_SUFFIXES) and (ROOT / name).is_file()]


def phrases_in(name: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, phrase and line of each use that is not literal."""
    literal = [re.compile(pattern) for pattern in LITERAL_USES.get(name, ())]
    for number, line in enumerate(text.splitlines(), 1):
        if not any(pattern.search(line) for pattern in literal):
            for match in _PHRASE.finditer(line):
                yield number, match[0], line.strip()


def is_outstanding(name: str) -> bool:
    """Whether a file is in the list of those still to be done."""
    return any(name == item or name.startswith(item.rstrip("/") + "/") for item in OUTSTANDING)


def main(arguments: Sequence[str]) -> int:
    """Print the phrases of all files that have to be free of them; return 1 if there is any."""
    names = [name for name in project_files() if "--all" in arguments or not is_outstanding(name)]
    found = [
        f"{name}:{number}: {phrase!r}: {line[:140]}"
        for name in names
        for number, phrase, line in phrases_in(name, (ROOT / name).read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or "no phrase to replace")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
