"""Jars come with or without Maven."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.flink.maven_central import fetched

TEXT = ("org.apache.commons", "commons-text", "1.12.0")
ALONE = ("org.apache.commons", "commons-math3", "3.6.1")
pytestmark = pytest.mark.flink


@pytest.mark.parametrize("maven", [None, "mvn", "no-such-command"])
def test_jars_and_what_they_need(tmp_path: Path, maven: str | None) -> None:
    jars = fetched([TEXT], tmp_path, alone=[ALONE], maven=maven)
    assert [jar.name for jar in jars] == [
        "commons-lang3-3.14.0.jar",
        "commons-math3-3.6.1.jar",
        "commons-text-1.12.0.jar",
    ]
    assert all(jar.read_bytes()[:4] == b"PK\x03\x04" for jar in jars)
    jars[0].unlink()
    assert fetched([TEXT], tmp_path, alone=[ALONE], maven=maven) == jars[1:], "nothing is fetched again"
    assert [jar.name for jar in fetched([ALONE], tmp_path, maven=maven)] == ["commons-math3-3.6.1.jar"]
