"""The reasons of a plan's cost, and the changes that would lower it.

`reasons.py`: binding limits; `relaxation.py`: limits to relax. `curve.py`: the cost as a step
function of one limit, for `marginal.py` and `pareto.py`. `sensitivity.py`: other inputs; `load.py`:
more load; `current_fleet.py`: the current fleet. `report.py`, `assumptions.py`, `warnings.py`:
texts of a plan; `figures.py`: charts.
"""
