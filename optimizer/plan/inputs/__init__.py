"""The planner's inputs: a results folder, a plan.toml or both, checked and fitted, as a case to
solve.

Read `request.py` first (the kinds of request), then `plan_file.py` (the schema), `declared.py` and
`capacity.py` (replacements of a measurement), `demand.py` and `load.py` (the tiers' load, its peak
and growth), `evidence.py` (latency, calibrated by the run), `margin.py` (its possible error),
`purchase.py` (reserved and spot machines), `case.py`.
"""
