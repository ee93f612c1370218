"""Words of a configuration are told to every program that reads it, also to another role's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from machines import ROOT

ROLES = ROOT / "infra" / "roles"
AGENTS_OWN = {"CALL_FAULTS", "STORE_FAULTS"}  # settings that no file of a role reads
WORD = re.compile(r"\$\{fleet\.([a-z_]+)\}")
TOLD = re.compile(r"-Dfleet\.([a-z_]+)=")


def configurations(role: Path) -> list[Path]:
    """Return the role's configurations, and those that its image takes from elsewhere."""
    sources = json.loads((role / "role.json").read_text()).get("build", {}).values()
    files_of_image = [ROOT / source for source in sources if source.endswith(".xml")]
    return [*role.rglob("*-site.xml"), *files_of_image]


# Names of an arm's settings in Hadoop's two releases; either has its default in its own code.
HDFS = {
    "new": {
        "handlers": ["dfs.namenode.handler.count"],
        "streams": ["dfs.namenode.replication.max-streams"],
        "streams_most": ["dfs.namenode.replication.max-streams-hard-limit"],
    },
    "old": {"handlers": ["dfs.namenode.handler.count"], "streams": ["dfs.max-repl-streams"]},
}


@pytest.mark.parametrize("generation", ["new", "old"])
def test_a_pool_s_size_has_the_name_that_its_release_reads(generation: str) -> None:
    """Nobody reads a property of another name: the arm would run with the release's default."""
    properties: dict[str, list[str]] = {}
    for entry in ElementTree.parse(ROLES / "hdfs" / generation / "hdfs-site.xml").getroot():
        for word in WORD.findall(entry.findtext("value") or ""):
            properties.setdefault(word, []).append(entry.findtext("name") or "")
    assert {word: properties.get(word) for word in HDFS[generation]} == HDFS[generation]


@pytest.mark.parametrize("name", ["hdfs", "hadoop", "hbase"])
def test_every_word_of_a_configuration_is_told(name: str) -> None:
    """Hadoop leaves a word that nobody tells as it stands, and a DataNode ends on its braces."""
    role = ROLES / name
    script_words = {
        word for script in role.glob("*.sh") for word in TOLD.findall(script.read_text())
    }
    file_words = {word for path in configurations(role) for word in WORD.findall(path.read_text())}
    assert file_words
    assert file_words <= script_words


TOLD_OF = {path.parent.name: json.loads(path.read_text()) for path in ROLES.glob("*/role.json")}
WITH_SETTINGS = sorted(name for name, told in TOLD_OF.items() if told.get("settings"))


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_every_setting_is_read_and_told_of(name: str) -> None:
    """A script or an adapter of the role reads it, and the README's table has it."""
    settings = set(TOLD_OF[name]["settings"])
    folder = ROLES / TOLD_OF[name].get("image_of", name)
    scripts = [path for end in ("*.sh", "limplock.py") for path in folder.rglob(end)]
    text = "".join(script.read_text() for script in scripts)
    unread = {key for key in settings - AGENTS_OWN if not re.search(rf"\b{key}\b", text)}
    assert unread == set()
    lines = (ROLES / "README.md").read_text().splitlines()
    row = next(line for line in lines if line.startswith(f"| {name} |"))
    assert {key for key in settings if f"`{key}`" not in row} == set()


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_a_setting_that_a_script_has_a_default_of_has_that_of_its_role(name: str) -> None:
    folder = ROLES / TOLD_OF[name].get("image_of", name)
    text = "".join(script.read_text() for script in folder.glob("start.sh"))
    for key, setting in TOLD_OF[name]["settings"].items():
        defaults = {default for default in re.findall(rf"\$\{{{key}:-([^}}]*)\}}", text) if default}
        assert defaults <= {str(setting["default"])}, key
