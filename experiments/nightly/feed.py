"""The feed: one entry per night."""

from __future__ import annotations

from experiments.nightly.history import History, Night, heads, incomplete, missed


def feed_values(history: History) -> list[dict[str, object]]:
    """Return the newest thirty nights as entries of the feed."""
    return [_entry(history, night) for night in reversed(history.nights[-30:])]


def _entry(history: History, night: Night) -> dict[str, object]:
    runs = heads(history.runs, night.night)
    valid = [run for run in runs if run.valid]
    late = missed(run for run in history.runs if run.night == night.night)
    incomplete_designs = incomplete(history, night.night)
    end = history.end_of(night.night)
    changed = end.changes if end else ()
    halted = end.halted if end else ""
    named = ", ".join(f"{name} ({reason})" for name, reason in incomplete_designs.items())
    designs = len({*night.entries, *incomplete_designs})
    parts = [
        "halted" if halted else "",
        f"{len(incomplete_designs)} of {designs} designs incomplete" * bool(incomplete_designs),
        "no valid run" if not valid else "SLO missed" if late else "SLO met",
        f"{len(changed)} changes" if changed else "",
    ]
    sentences = [
        f"Halted: {halted}." if halted else "",
        f"{len(valid)} of {len(runs)} runs valid.",
        f"Incomplete: {named or 'none'}.",
        f"SLO missed: {', '.join(late) or 'none'}.",
        f"Changes: {', '.join(changed) or 'none'}.",
    ]
    return {
        "night": night.night,
        "updated": (end or night).at.isoformat(),
        "title": f"Night {night.night}: {', '.join(part for part in parts if part)}",
        "text": " ".join(part for part in sentences if part),
    }
