"""State of the load generator, and of the host under all machines, for report and terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.kinds.compare.folder import RunFolder
from experiments.record.disturbed import taken_words
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, milliseconds, number, percent, plain

_FULL_SHARE = 0.9  # of a block

Blocks = Sequence[Mapping[str, Any]]


def load_words(blocks: Blocks) -> str:
    """Return the generator's CPU use, the limits that it met, and the outcome of a Locust file's
    tasks; "" without a block.
    """
    if not blocks:
        return ""
    workers = max(len(block["workers"]) for block in blocks)
    busiest = max(block["cpu_share"] or 0.0 for block in blocks)
    limited = [block for block in blocks if not block["ok"]]
    names = ", ".join(sorted({limit for block in limited for limit in block["limits"]}))
    state = f"at its limit in {len(limited)} of {len(blocks)} blocks ({names})" if limited else (
        "as asked")  # fmt: skip
    many = "s" if workers > 1 else ""
    tasks = f"; {_task_words(blocks)}" if _uses(blocks) else ""
    use_text = f"{workers} worker{many}, the busiest took {percent(busiest)} of a core"
    return f"load: {use_text}, {state}{tasks}"


def _uses(blocks: Blocks) -> list[Mapping[str, Any]]:
    """Return the workers that had tasks of a Locust file."""
    return [use for block in blocks for use in block["workers"] if use.get("tasks")]


def _task_words(blocks: Blocks) -> str:
    """Count the tasks of a Locust file in all blocks, warm-up included."""
    uses = _uses(blocks)

    def total(name: str) -> int:
        return sum(use["tasks"][name] for use in uses)

    begun = sum(use["planned"] for use in uses) - total("not_started")
    counts = {
        "not started": total("not_started"),
        "raised": total("raised"),
        "timed out": total("timed_out"),
        "without a request": total("no_request"),
    }
    errors = [error for use in uses for error in use["tasks"]["errors"]]
    failures = ", ".join(f"{number(count)} {outcome}" for outcome, count in counts.items() if count)
    first = f" (first: {errors[0]})" if errors else ""
    outside = total("outside")
    more = f"; {number(outside)} requests outside tasks are not counted" if outside else ""
    return f"{number(begun)} tasks begun, {failures or 'each made a request'}{first}{more}"


def load_table(blocks: Blocks) -> Table | None:
    """Return the load generator in each block: its workers, how busy, how late, and its verdict."""
    rows = tuple(
        (
            named(block["repeat"] + 1), named(block["arm"]), Cell(number(len(block["workers"]))),
            Cell(MISSING if block["cpu_share"] is None else percent(block["cpu_share"])),
            Cell(milliseconds(block["lag_ms_p99"])), Cell(percent(block["sent_share"])),
            named("as asked" if block["ok"] else "; ".join(block["reasons"])),
        )
        for block in blocks
    )  # fmt: skip
    head = ("block", "arm", "workers", "busiest worker, of a core", "lag p99",
            "sent of offered", "verdict")  # fmt: skip
    return Table("load-table", "The load generator", head, rows) if rows else None


def host_words(blocks: Blocks) -> str:
    """Return the host's CPU use, the share of other guests, and the evenness of its speed, in the
    blocks that count; "" without one."""
    counted = [block for block in blocks if not block.get("spoiled")]
    if not counted:
        return ""
    busy, stolen, speed = (
        [block[name] for block in counted] for name in ("busy_share", "stolen_share", "core_speed")
    )
    other_work = max(block.get("others_share") or 0.0 for block in counted)
    return (
        f"host: cores {percent(min(busy))} to {percent(max(busy))} busy in a block, at most "
        f"{percent(other_work)} with other work and {percent(max(stolen))} stolen, the slowest at "
        f"{percent(min(speed) / max(speed))} of the fastest one's core speed"
    )


def caps_words(run: RunFolder) -> str:
    """Say whether the host or the caps limited the machines, if the caps exceed the host's cores.

    The text is empty for other runs.
    """
    cores = (run.manifest.get("host") or {}).get("cores")
    fleet = run.spec.get("fleet") or {}
    caps = sum(tier["nodes"] * tier["cpus"] for tier in (fleet.get("tiers") or {}).values())
    blocks = run.summary.get("host_blocks") or []
    if run.manifest.get("platform") != "local" or not cores or caps <= cores or not blocks:
        return ""
    full = [block for block in blocks if block["busy_share"] + block["stolen_share"] > _FULL_SHARE]
    caps_text = f"the tiers' caps add up to {plain(caps)} of the host's {cores} cores"
    if not full:
        return f"{caps_text}; these were never full in a block, so the caps held"
    return (
        f"{caps_text}; in {len(full)} of {len(blocks)} blocks these were more than "
        f"{percent(_FULL_SHARE)} busy: there the host limited the machines, not their caps"
    )


def _fate(block: Mapping[str, Any]) -> str:
    if why := block.get("spoiled"):
        return f"set aside: {why}"
    is_disturbed = taken_words(block["stolen_share"], block.get("others_share"))
    return "counts, disturbed" if is_disturbed else "counts"


def host_table(blocks: Blocks) -> Table | None:
    """Return the host's cores in each block, and their speed against the fastest block's."""
    fastest = max((block["core_speed"] for block in blocks), default=1.0)
    rows = tuple(
        (
            named(block["repeat"] + 1), named(block["arm"]), Cell(percent(block["busy_share"])),
            Cell(percent(block.get("others_share"))), Cell(percent(block["stolen_share"])),
            Cell(percent(block["core_speed"] / fastest)),
            named(_fate(block)),
        )
        for block in blocks
    )  # fmt: skip
    head = ("block", "arm", "cores busy", "with other work", "stolen by other guests", "core speed",
            "what became of it")  # fmt: skip
    return Table("host-table", "The host under all machines", head, rows) if rows else None
