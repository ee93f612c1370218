"""Designs with `[[load.operations]]`, as text that tests change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.design import Design, load_design
from experiments.design.experiment import OPERATIONS
from experiments.design.schedule import Block
from experiments.design.target import Target
from experiments.load.plan import LoadPlan, plan_block
from experiments.tests.spec_fixture import TOML, write

LOG_IN = """\
[[load.operations]]
name = "log in"
method = "POST"
path = "/login"
body = { json = { user = "${user}" } }
take = { token = { json_path = "token" } }
"""
BUY = """\
[[load.operations]]
name = "buy"
method = "POST"
path = "/cart"
headers = { Authorization = "Bearer ${token}" }
body = { form = { item = "7" } }
expect = [201, "3xx", "404-410"]
"""
PAGE = """\
[[load.operations]]
name = "page"
path = "/"
"""
SESSION = """\
[[load.sessions]]
name = "shopper"
steps = [{ operation = "log in" }, { operation = "buy", think_s = [1.0, 2.0] }]
"""
PATIENT = {"connect_timeout_s": 60.0, "response_timeout_s": 60.0}
USERS = 'parameters = "users.csv"\n'


def toml(*tables: str, keys: str = "") -> str:
    """Return the design of spec_fixture with these operations in place of its user."""
    text = TOML.replace('user = "wiki-reader"\n', keys)
    return text.replace("[phases]", "\n".join([*tables, "[phases]"]), 1)


def read(directory: Path, *tables: str, keys: str = "", csv: str = "user\nann\nbob\n") -> Design:
    write(directory, toml=toml(*tables, keys=keys))
    (directory / "users.csv").write_text(csv)
    return load_design(directory)


def planned(
    design: Design,
    url: str,
    warm_up_s: float,
    measure_s: float,
    target: Target | None = None,
    **changes: Any,
) -> LoadPlan:
    """A block without faults, of 20 requests a second; `changes` are of its load.

    Its time-outs are longer than any test.
    """
    base_experiment = design.experiment
    lengths = {"warm_up": warm_up_s, "measure": measure_s}
    parts = {
        "load": base_experiment.load.at(20.0).model_copy(
            update={"arrivals": "constant", **PATIENT, **changes}
        ),
        "phases": base_experiment.phases.model_copy(update=lengths),
        "faults": (),
    }
    experiment = base_experiment.model_copy(update=parts)
    block = Block(0, 0, "baseline", seed=7)
    return plan_block({"web": (url,)}, experiment, block, design.workloads[OPERATIONS], target)
