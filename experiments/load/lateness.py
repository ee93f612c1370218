"""Messages about a Python worker that sent late, with a worker that would be faster."""

from __future__ import annotations

from experiments.design.workers import DEFAULT, PYTHON
from experiments.load.plan import LoadPlan

LAG_MS_MAX = 0.2  # p99 of sent - intended; the native worker's is below it


def less_late(lag_ms_p99: float | None, plan: LoadPlan, worker: str) -> str | None:
    """Return a message about a Python worker's lateness above `LAG_MS_MAX` [ms] and a faster
    worker; None for any other worker.

    Parameters: worker, as the design names it.
    """
    if lag_ms_p99 is None or lag_ms_p99 <= LAG_MS_MAX:
        return None
    if plan.locustfile is not None:
        advice = (
            "FastHttpUser takes less time than HttpUser, and the worker native sends "
            "[[load.operations]] in place of a Locust file"
        )
    elif plan.client is not None:
        advice = (
            "the workload's client is Python; the worker native sends what [[load.operations]] or "
            "a protocol of Sparecraft's own can say"
        )
    elif worker == PYTHON:
        advice = f'the worker {DEFAULT} sends the same: take out worker = "{PYTHON}"'
    else:
        return None
    message = f"The Python worker sent late, {lag_ms_p99:.2f} ms at p99 ({LAG_MS_MAX:g} is little)"
    return f"{message}: {advice}."
