"""The table of faults on both platforms, in infra/README.md, says what the code does."""

from __future__ import annotations

import re

import pytest

from experiments.design.contracts import FAULT_KINDS, INTERFERENCE_KINDS, MACHINE_KINDS
from experiments.paths import ROOT
from experiments.testbed.platforms.ec2.machines import Ec2Machines
from experiments.testbed.platforms.local.platform import LocalPlatform

VERDICTS = ("same", "approximated:", "not possible:")


def _rows() -> dict[str, tuple[str, str]]:
    """kind: (what the table says of local, and of EC2)."""
    text = (ROOT / "infra" / "README.md").read_text()
    table = text.split("| kind | local | EC2 |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([a-z._]+)` \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    assert len(rows) == len({kind for kind, _, _ in rows})
    return {kind: (local, ec2) for kind, local, ec2 in rows}


def test_every_kind_of_fault_and_interference_has_its_row() -> None:
    assert set(_rows()) == {*FAULT_KINDS, *INTERFERENCE_KINDS}


@pytest.mark.parametrize("kind", [*FAULT_KINDS, *INTERFERENCE_KINDS])
def test_a_kind_is_where_its_row_says_by_the_platform_or_the_agent(kind: str) -> None:
    local, ec2 = _rows()[kind]
    assert ec2.startswith(VERDICTS)
    stand_in = Ec2Machines.through_agent.get(kind)
    assert stand_in is None or ec2.startswith(f"approximated: `{stand_in}` by the agent")
    assert local.startswith("agent") == (kind not in MACHINE_KINDS)
    offered = (ROOT / "agents" / "README.md").read_text()
    by_agent = Ec2Machines.through_agent.get(kind, kind)
    if by_agent not in MACHINE_KINDS:
        assert f"`{by_agent}`" in offered
    assert kind not in LocalPlatform.through_agent
