"""The feed: a night, an entry."""

from __future__ import annotations

from typing import Any

from experiments.nightly.history import History, missed
from experiments.nightly.tables import heads


def feed_values(history: History) -> list[dict[str, Any]]:
    """The newest thirty nights as entries of the feed."""
    found = []
    for night in reversed(history.nights[-30:]):
        runs = heads(history.runs, night.night)
        valid = [run for run in runs if run.valid]
        spoilt = sum(run.disturbed for run in runs)
        late = missed(run for run in history.runs if run.night == night.night)
        end = history.end_of(night.night)
        changed = end.changes if end else ()
        halted = end.halted if end else ""
        title = "no valid run" if not valid else "SLO missed" if late else "SLO met"
        title = f"{title}, {len(changed)} changes" if changed else title
        title = f"halted, {title}" if halted else title
        found.append({
            "night": night.night, "updated": (end or night).at.isoformat(),
            "title": f"Night {night.night}: {title}",
            "text": (f"Halted: {halted}. " if halted else "")
                    + f"{len(valid)} of {len(runs)} runs valid"
                    + (f", {spoilt} disturbed by others on the host. " if spoilt else ". ")
                    + f"SLO missed: {', '.join(late) or 'none'}. "
                    f"Changes: {', '.join(changed) or 'none'}.",
        })  # fmt: skip
    return found
