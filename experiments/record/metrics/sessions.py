"""Sessions of a load as rows, made from the records of their steps."""

from __future__ import annotations

import polars as pl

from core.statistics.percentiles import OK


def whole_sessions(requests: pl.DataFrame) -> pl.DataFrame:
    """Return the sessions with all their steps in `requests`, each as a row.

    A session lasts from the intended start of its first step to the end of its last. A failed
    session counts at least as long as its longest step.

    Returns: arm, repeat, name, intended_s, latency_ms, outcome (of its first step that failed),
    status 0, bytes, reason (the name of that step).
    """
    if "session" not in requests.columns:
        return requests.clear()
    steps = requests.filter(pl.col("session").is_not_null()).sort("index")
    failed = pl.col("outcome") != OK
    sessions = (
        steps.group_by("arm", "repeat", "session", "session_number", maintain_order=True)
        .agg(
            pl.col("intended_s").first(),
            took_ms=1e3 * (pl.col("done_s").max() - pl.col("intended_s").first()),
            worst_ms=pl.col("latency_ms").max(),
            outcome=pl.col("outcome").filter(failed).first().fill_null(OK),
            reason=pl.col("name").filter(failed).first(),
            status=pl.lit(0),
            bytes=pl.col("bytes").sum(),
            steps=pl.len(),
            of=pl.col("session_steps").first(),
        )
        .filter(pl.col("steps") == pl.col("of"))
    )
    counted = (
        pl.when(pl.col("outcome") == OK)
        .then(pl.col("took_ms"))
        .otherwise(pl.max_horizontal(pl.col("took_ms"), pl.col("worst_ms")))
    )
    return sessions.with_columns(latency_ms=counted, name=pl.col("session"))
