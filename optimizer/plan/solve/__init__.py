"""The cheapest fleet and its proof.

`options.py` and `table.py`: the options of a tier. `problem.py`: the limits, and their checks for a
fleet. `model.py`: the optimization, with `presolve.py` and `incumbent.py` before it and `labels.py`
for chains of three tiers and more. `monotony.py`: the check of the proof's assumption.
`schedule.py`, `schedule_model.py`, `schedule_search.py`: machines by the hour.
"""
