"""The cheapest fleet and its proof.

`options.py` and `table.py`: what a tier may be. `problem.py`: the limits, and whether a fleet keeps
them. `model.py`: the optimization, with `presolve.py` and `incumbent.py` before it and `labels.py`
for chains of three tiers and more. `monotony.py`: what the proof rests on. `schedule.py`,
`schedule_model.py`, `schedule_search.py`: machines by the hour.
"""
