"""What the report says of the load generator."""

from __future__ import annotations

from experiments.kinds.compare.folder import RunFolder
from experiments.report.tables import Cell, Table, named
from experiments.report.text import MISSING, milliseconds, number, percent


def load_table(run: RunFolder) -> Table | None:
    """The load generator in each block: its workers, how busy, how late, and its verdict."""
    blocks = (run.summary.get("load") or {}).get("blocks") or []
    if not blocks:
        return None
    rows = [
        (
            named(block["repeat"] + 1), named(block["arm"]), Cell(number(len(block["workers"]))),
            Cell(MISSING if block["cpu_share"] is None else percent(block["cpu_share"])),
            Cell(milliseconds(block["lag_ms_p99"])), Cell(percent(block["sent_share"])),
            Cell("as asked" if block["ok"] else "; ".join(block["reasons"]), numeric=False),
        )
        for block in blocks
    ]  # fmt: skip
    head = ("block", "arm", "workers", "busiest worker, of a core", "lag p99",
            "sent of offered", "verdict")  # fmt: skip
    return Table("load-table", "The load generator", head, tuple(rows))
