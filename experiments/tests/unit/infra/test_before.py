"""The state of a host before it is taken (infra/boot/before.py): a boot alone changes nothing."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from experiments.paths import ROOT


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, as it is imported on a host."""
    monkeypatch.syspath_prepend(str(ROOT / "infra" / "boot"))
    return importlib.import_module("before")


def test_a_service_s_private_folder_of_this_boot_is_no_entry(
    before: ModuleType, tmp_path: Path
) -> None:
    for name in ("systemd-private-1229-ssh.service-7okJeq", "theirs"):
        (tmp_path / name).mkdir()
    assert before.entries([str(tmp_path), "/no-such-folder"]) == [str(tmp_path / "theirs")]


def test_a_bridge_and_its_ports_are_no_links_of_the_host(
    before: ModuleType, tmp_path: Path
) -> None:
    for folder in ("docker0/bridge", "veth12/brport", "eth0/device", "sc-1"):
        (tmp_path / folder).mkdir(parents=True)
    lines = [
        "eth0             UP             52:54:00:12:34:56 <BROADCAST,MULTICAST,UP,LOWER_UP>",
        "sc-1             DOWN           5a:11:22:33:44:55 <BROADCAST,NOARP>",
        "docker0          DOWN           02:42:6c:11:22:33 <NO-CARRIER,BROADCAST>",
        "veth12@if4       UP             fe:54:00:12:34:57 <BROADCAST,MULTICAST,UP>",
        "",
    ]
    assert before.without_bridges(lines, tmp_path) == lines[:2]
