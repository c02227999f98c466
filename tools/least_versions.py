"""Print the oldest releases of the dependencies that are allowed, as constraints for pip.

`python -m tools.least_versions` reads the requirements of the installed package; `make test-least` runs the tests with
these releases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import requires

from packaging.requirements import Requirement

EXTRAS = ("", "sql", "pandas", "jit", "spark", "rocksdb", "s3", "hdfs", "delta", "jobs")
"""No extra, and those that people install to run the package."""


def least_versions(requirements: Iterable[str]) -> Iterator[str]:
    """Yield ``name==version`` of each requirement that running the package has, with its lower bound.

    Raises:
        ValueError: A requirement has no lower bound, or no upper one.
    """
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in EXTRAS):
            continue
        bounds = {item.operator: item.version for item in requirement.specifier}
        if not {">=", "<"} <= set(bounds):
            raise ValueError(f"{text}: a lower and an upper bound are required")
        yield f"{requirement.name}=={bounds['>=']}"


if __name__ == "__main__":
    print("\n".join(sorted(set(least_versions(requires("stateproc") or ())))))
