"""Compute what the accumulators of the queries hold from the rows that they read: `python src/accumulators.py`.

Reads expected.jsonl, the input rows in their order, and writes accumulators.jsonl in the form of other cases' lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent
Row = dict[str, Any]


def accumulators(group: str, rows: list[Row]) -> Iterator[tuple[str, str, Any]]:
    """Yield operator, state and value for the rows of one group."""
    texts, numbers = [row["s"] for row in rows], [row["v"] for row in rows]
    present = [number for number in numbers if number is not None]
    seen = Counter(text for text in texts if text is not None)
    joined = [text for text in texts if text is not None]
    yield "69_group-aggregate", "accState", {"array_agg_s": {"list": texts, "retractList": []}}
    yield "77_group-aggregate", "accState", {
        "listagg_s_delimiter": ",",
        "listagg_s": ",".join(joined),
        "listagg_s_delimiter_1": "|",
        "listagg_s_1": "|".join(joined),
    }
    yield "79_group-aggregate", "distinctAcc_0", dict.fromkeys(seen, 1)
    yield "84_group-aggregate", "agg1$list", [json.dumps(row["s"]) for row in rows if None not in (row["s"], row["v"])]
    yield "86_group-aggregate", "agg0$map", dict(seen)
    yield "90_group-aggregate", "accState", {
        "sum": sum(number * number for number in present),
        "sum_v": sum(present),
        "count_v": len(present),
        "count_s": len(seen),
        "sum_1": float(sum(number * number for number in present)),
        "sum_2": float(sum(present)),
        "count": len(present),
        "distinct_s": None,
    }
    lag = {"offset": 1, "defaultValue": None, "buffer": numbers[-2:]}
    yield "101_over-aggregate", "accState", {"lag_v": lag}
    lag = {"offset": 2, "defaultValue": "none", "buffer": texts[-3:]}
    yield "106_over-aggregate", "accState", {"lag_s_constant_0_constant_1": lag}
    yield "116_group-aggregate", "accState", {"struct_agg_v_s": {"seen": dict(seen), "sum": sum(present)}}


def main() -> None:
    """Write accumulators.jsonl."""
    rows = [json.loads(line) for line in (FOLDER / "expected.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = [
        {"op": operator, "state": state, "key": {"g": group}, "value": value}
        for group in sorted({row["g"] for row in rows})
        for operator, state, value in accumulators(group, [row for row in rows if row["g"] == group])
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (FOLDER / "accumulators.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
