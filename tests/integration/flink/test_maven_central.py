"""Jars come with or without Maven."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.flink.maven_central import fetched

TEXT = ("org.apache.commons", "commons-text", "1.12.0")
ALONE = ("org.apache.commons", "commons-math3", "3.6.1")
COMMANDS = (None, "mvn", "no-such-command")
pytestmark = pytest.mark.flink


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str | None, tuple[Path, Future[list[Path]]]]]:
    """Return the folder and the jars of each command; they are fetched side by side, as each waits for the network."""
    with ThreadPoolExecutor(len(COMMANDS)) as pool:
        homes = {maven: tmp_path_factory.mktemp("jars") for maven in COMMANDS}
        yield {
            maven: (home, pool.submit(fetched, [TEXT], home, alone=[ALONE], maven=maven))
            for maven, home in homes.items()
        }


@pytest.mark.parametrize("maven", COMMANDS)
def test_jars_and_what_they_need(
    downloads: dict[str | None, tuple[Path, Future[list[Path]]]], maven: str | None
) -> None:
    home, download = downloads[maven]
    jars = download.result()
    assert [jar.name for jar in jars] == [
        "commons-lang3-3.14.0.jar",
        "commons-math3-3.6.1.jar",
        "commons-text-1.12.0.jar",
    ]
    assert all(jar.read_bytes()[:4] == b"PK\x03\x04" for jar in jars)
    jars[0].unlink()
    assert fetched([TEXT], home, alone=[ALONE], maven=maven) == jars[1:], "nothing is fetched again"
    assert [jar.name for jar in fetched([ALONE], home, maven=maven)] == ["commons-math3-3.6.1.jar"]
