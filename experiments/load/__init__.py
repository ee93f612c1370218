"""Open-loop load: a plan that is drawn ahead, and a worker process that carries it out.

Read `README.md` first (workloads, clients, workers), then `plan.py` (what a block of load is) and
`generator.py` (how the runner drives a worker).
"""
