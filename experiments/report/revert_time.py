"""The time to undo faults, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.record.metrics.latency import SAMPLES_BEYOND_MIN
from experiments.report.text import number


def revert_time_words(undone: Mapping[str, Any] | None) -> str:
    """Describe `undone` of result.json; empty for a run without a fleet."""
    if undone is None:
        return ""
    count, worst, unconfirmed = undone["count"], undone["worst"], undone["unconfirmed"]
    if not count and not unconfirmed:
        return "Undo: nothing was injected."
    sentences = []
    if worst:
        sentences.append(
            f"Undo: at most {number(worst['seconds'])} s from the asked end to its confirmation, "
            f"{worst['kind']} on {worst['machine']}, of {number(count)} undos"
            f"{' (insufficient)' if count < SAMPLES_BEYOND_MIN else ''}."
        )
    if unconfirmed:
        sentences.append(f"Of {number(unconfirmed)} no undo was confirmed.")
    lease_s = undone["lease_s"]
    sentences.append(f"Were the runner killed, agents would undo theirs after {lease_s:g} s.")
    return " ".join(sentences)
