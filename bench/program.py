"""The program of a schedule in linopy; runs in the peers' own environment.

`python program.py TIERS KINDS PERIODS`: machines by the hour, of several sizes, carry a load; each
runs for three hours after its start. Prints JSON: seconds until HiGHS has the program, rows,
columns, and, with at most 1,000 numbers, its optimum. `schedule.py` has the planner's program.
"""

import json
import math
import sys
import time


def load(tier: int, period: int) -> float:
    """Return a tier's load, in capacities of its smallest machine."""
    return 20.0 + tier + 10.0 * math.sin(period / 4.0 + tier)


def price(kind: int) -> float:
    """Return USD per month of a machine of the size `kind` + 1."""
    return 10.0 * (kind + 1) + 3.0


def main() -> None:
    import linopy
    import numpy as np
    import xarray as xr

    tiers, kinds, periods = (int(text) for text in sys.argv[1:4])
    start_s, cpu_start_s = time.perf_counter(), time.process_time()
    axes = {"tier": range(tiers), "kind": range(kinds), "period": range(periods)}
    loads = [[load(t, p) for p in range(periods)] for t in range(tiers)]
    demand = xr.DataArray(loads, coords=[axes["tier"], axes["period"]], dims=["tier", "period"])
    sizes = xr.DataArray(np.arange(1.0, kinds + 1), coords=[axes["kind"]], dims=["kind"])
    prices = xr.DataArray([price(k) for k in range(kinds)], coords=[axes["kind"]], dims=["kind"])
    model = linopy.Model()
    coords = [axes["tier"], axes["kind"], axes["period"]]
    run = model.add_variables(lower=0, integer=True, coords=coords, dims=list(axes), name="run")
    start = model.add_variables(lower=0, coords=coords, dims=list(axes), name="start")
    model.add_constraints((run * sizes).sum("kind") >= demand, name="carried")
    model.add_constraints(run.sum("kind") >= 1, name="enough")
    model.add_constraints(start - run + run.roll(period=1) >= 0, name="starting")
    lately = start + start.roll(period=1) + start.roll(period=2)
    model.add_constraints(run - lately >= 0, name="running_on")
    model.add_objective((run * (prices / periods)).sum())
    solver = model.to_highspy()
    figures = {
        "seconds": time.perf_counter() - start_s,
        "cpu_s": time.process_time() - cpu_start_s,
        "rows": solver.getNumRow(),
        "columns": solver.getNumCol(),
    }
    if tiers * kinds * periods <= 1000:
        solver.setOptionValue("output_flag", False)
        solver.run()
        figures["usd_per_month"] = solver.getInfo().objective_function_value
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
