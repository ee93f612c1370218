"""The planner's inputs: a results folder, a plan.toml or both, checked and fitted, as a case to
solve.

`request.py` first (the ways in), then `plan_file.py` (the schema), `declared.py` and `capacity.py`
(what stands in for a measurement), `demand.py` and `load.py` (the tiers' load, its peak and
growth), `evidence.py` (latency, calibrated by the run), `margin.py` (how sure that is),
`purchase.py` (reserved and spot machines), `case.py`.
"""
