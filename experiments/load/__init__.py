"""Open-loop load: a plan that is drawn ahead, and a worker process that carries it out.

Read `README.md` first, then `plan.py` (a block of load) and `generator.py` (the runner's side of a
worker). `protocols/` has clients in Python, `workers/` the contract of load workers.
"""
