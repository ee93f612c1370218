"""hosts.toml, and what infra/stacks/hosts makes of it, without any host."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.testbed.platforms.hosts.hosts_file import read
from experiments.testbed.platforms.hosts.platform import HostsPlatform

ONE = '[[hosts]]\nname = "a"\naddress = "10.0.0.1"\ndata_interface = "eth1"\ncores = 4\n'


def _file(folder: Path, text: str) -> Path:
    file = folder / "hosts.toml"
    file.write_text(text)
    return file


def test_paths_are_from_the_files_own_folder_and_defaults_are_ssh_s(tmp_path: Path) -> None:
    listed = read(_file(tmp_path, f'known_hosts = "known"\nkey = "/keys/fleet"\n{ONE}'))
    assert (listed.known_hosts, listed.key) == (str(tmp_path / "known"), "/keys/fleet")
    (host,) = listed.hosts
    assert (host.port, host.user, host.sysrq, host.power_off) == (22, "root", False, None)
    assert read(_file(tmp_path, ONE)).key is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "hosts"),
        (ONE + ONE, "name a is there twice"),
        (ONE + ONE.replace('"a"', '"b"'), "address 10.0.0.1 is there twice"),
        (ONE + 'power_off = "ipmitool off"\n', "power_off and power_on come together"),
        (ONE + "colour = 1\n", "colour"),
        (ONE.replace("10.0.0.1", "-oProxyCommand=sh"), "address"),
        (ONE + 'user = "-oProxyCommand=sh"\n', "user"),
        ("ttl_hours = 200\n" + ONE, "ttl_hours"),
        ("hosts = [", "hosts.toml"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        read(_file(tmp_path, text))
    assert says in f"{refused.value.place} {refused.value.got}"


def test_down_where_no_hosts_were_ever_named_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stack").mkdir()
    platform = HostsPlatform("wiki", stack=tmp_path / "stack")
    assert (platform.remaining(), platform.down(print)) == ([], [])
    named = HostsPlatform("wiki", tmp_path / "mine.toml", stack=tmp_path / "stack")
    with pytest.raises(InputError, match=r"mine\.toml"):
        named.down(print)
