"""Words of a configuration are told to every program that reads it, also to another role's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from machines import ROOT

ROLES = ROOT / "infra" / "roles"
WORD = re.compile(r"\$\{fleet\.([a-z_]+)\}")
TOLD = re.compile(r"-Dfleet\.([a-z_]+)=")


def configurations(role: Path) -> list[Path]:
    """Its own, and those that its image takes from elsewhere."""
    taken = json.loads((role / "role.json").read_text()).get("build", {}).values()
    elsewhere = [ROOT / source for source in taken if source.endswith(".xml")]
    return [*role.rglob("*-site.xml"), *elsewhere]


@pytest.mark.parametrize("name", ["hdfs", "hadoop", "hbase"])
def test_every_word_of_a_configuration_is_told(name: str) -> None:
    """Hadoop leaves a word that nobody tells as it stands, and a DataNode ends on its braces."""
    role = ROLES / name
    said = {word for script in role.glob("*.sh") for word in TOLD.findall(script.read_text())}
    asked = {word for one in configurations(role) for word in WORD.findall(one.read_text())}
    assert asked
    assert asked <= said
