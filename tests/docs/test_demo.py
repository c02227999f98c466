"""``make demo`` answers its questions, through Spark."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers.paths import ROOT


@pytest.fixture(scope="module")
def shown() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tools.spark_demo"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("the catalog", "|orders-per-customer|spent-per-product|"),
        ("a POJO in value state", "|     298|          NULL|451.5|Elm street|"),
        ("one key", "|       29| 42|customer № 42|     3|"),
        ("map state", "|      180|20422.5|"),
        ("window contents", "2023-11-14 22:10:00|    12|   97.5|"),
        ("timers", "2023-11-15 22:13:20|user-timers|"),
        ("Kafka splits", "|shop.orders|        3|    15000845180|    90000000000|      1|"),
    ],
)
def test_the_demo_answers(question: str, answer: str, shown: str) -> None:
    assert answer in shown, question
