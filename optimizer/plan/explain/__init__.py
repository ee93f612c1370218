"""Why the plan costs what it costs, and what would change it.

`reasons.py`: what binds, and what would have to give way (`relaxation.py`). `curve.py`: the cost as
a step function of one limit, which `marginal.py` and `pareto.py` walk. `sensitivity.py`: other
inputs; `load.py`: more load; `current_fleet.py`: the fleet that is there. `report.py`,
`assumptions.py`, `warnings.py`: what a plan says of itself; `figures.py` draws.
"""
