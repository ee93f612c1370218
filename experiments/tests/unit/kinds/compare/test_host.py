"""The host under all machines, in words."""

from __future__ import annotations

from typing import Any

from experiments.kinds.compare.host import host_words

COUNTED = {"busy_share": 0.2, "stolen_share": 0.001, "others_share": 0.06, "core_speed": 1.0}
SET_ASIDE = {
    "busy_share": 0.9, "stolen_share": 0.4, "others_share": 0.5, "core_speed": 0.3,
    "spoiled": "other work on this host took 50% of the cores",
}  # fmt: skip


def test_blocks_that_were_set_aside_say_nothing_of_the_host_under_those_that_count() -> None:
    blocks: list[dict[str, Any]] = [COUNTED, SET_ASIDE]
    assert host_words(blocks) == host_words([COUNTED]) != ""
    assert host_words([SET_ASIDE]) == ""
