"""Open-loop load, with Locust as the engine in a process of its own.

Read `plan.py` first (what a block of load is), then `generator.py` (how the runner drives it). The
runner never imports `open_loop`, `http` or `locustfile`: Locust patches the standard library.
"""

from experiments.load.generator import LoadGenerator, LoadHandle, LoadStatus, RequestRecord
from experiments.load.plan import LoadPlan, plan_block, read_plan
from experiments.load.users import USERS, Page, Population, wiki_pages

__all__ = [
    "USERS",
    "LoadGenerator",
    "LoadHandle",
    "LoadPlan",
    "LoadStatus",
    "Page",
    "Population",
    "RequestRecord",
    "plan_block",
    "read_plan",
    "wiki_pages",
]
