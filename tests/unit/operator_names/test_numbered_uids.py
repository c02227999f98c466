"""Uids that contain the id of an ExecNode are found by their hashes, which equal Flink's."""

from __future__ import annotations

import random
import time

from stateproc.keygroups.operator_ids import operator_id
from stateproc.operator_names.uid_hashes import UidTemplate, find_numbered_uids, uid_templates

EDGES = (1, 9, 10, 99, 100, 999, 1000, 9999, 10_000)


def test_every_template_is_found_with_every_count_of_digits() -> None:
    uids = {
        f"{template.prefix}{number}{template.suffix}"
        for template in uid_templates()
        for number in (*EDGES, random.Random(template.suffix).randint(1, 10_000))
    }
    ids = {operator_id(uid): uid for uid in uids}
    assert find_numbered_uids(ids, uid_templates(), 10_000) == ids


def test_templates_of_any_length_are_hashed_like_single_uids() -> None:
    # Digits at every offset of a block of 16 bytes, across the border of two words, and in the last, incomplete block.
    for before in range(35):
        for after in range(18):
            template = UidTemplate("p" * before, "s" * after)
            ids = {operator_id(f"{template.prefix}{number}{template.suffix}") for number in (3, 42, 123)}
            assert set(find_numbered_uids(ids, [template], 130)) == ids


def test_ids_of_other_uids_and_larger_numbers_are_not_named() -> None:
    others = [operator_id("orders"), operator_id("10001_group-aggregate"), "0" * 32]
    assert find_numbered_uids(others, uid_templates(), 10_000) == {}


def test_more_than_a_million_uids_take_less_than_half_a_second() -> None:
    templates = list(uid_templates())
    assert len(templates) > 100
    started = time.process_time()
    find_numbered_uids([operator_id(str(number)) for number in range(300)], templates, 10_000)
    assert time.process_time() - started < 0.5
