"""Waits, reads and permitted requests of the load's clients."""

from __future__ import annotations

import json
import time
from pathlib import Path

import gevent
import pytest

from core.errors import InputError
from experiments.design import Design, load_design
from experiments.design.experiment import OPERATIONS
from experiments.design.inventory import Inventory
from experiments.load import plan
from experiments.load.client import ByteClient, Cut, Garbled, Reply
from experiments.load.plan import protocol_of
from experiments.load.protocols.memcached import MemcachedClient
from experiments.load.protocols.redis import RedisClient
from experiments.load.tls import tls_of
from experiments.load.workers.locust.timer import Alarm
from experiments.run.block import entries_for
from experiments.tests.operations_fixture import PAGE, toml
from experiments.tests.spec_fixture import TFVARS, write
from experiments.tests.stores import client


def test_a_wait_never_ends_early_and_one_for_the_past_ends() -> None:
    alarm = Alarm()
    for wait_s in (0.0005, 0.01, 0.05, -5.0, 0.002):
        due_s = time.monotonic() + wait_s
        alarm.wait_until(due_s)
        assert time.monotonic() >= due_s
    alarm.wait_until(0.0)
    alarm.close()


def test_other_greenlets_run_during_a_wait_and_a_killed_one_leaves_an_alarm_that_works() -> None:
    alarm = Alarm()
    waiting = gevent.spawn(alarm.wait_until, time.monotonic() + 600.0)
    gevent.sleep(0)
    gevent.spawn(lambda: None).get()
    assert not waiting.dead
    waiting.kill()
    assert waiting.dead
    due_s = time.monotonic() + 0.01
    alarm.wait_until(due_s)
    assert time.monotonic() >= due_s
    alarm.close()


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (MemcachedClient, b"VALUE k 0 3\r\nabc\r\nEND\r\n", "ok"),
        (MemcachedClient, b"END\r\n", "bad_content"),
        (MemcachedClient, b"SERVER_ERROR out of memory\r\n", "bad_status"),
        (MemcachedClient, b"VALUE k 0 x\r\nabc\r\nEND\r\n", Garbled),
        (MemcachedClient, b"VALUE k 0 3\r\nabcd\r\nEND\r\n", Garbled),
        (MemcachedClient, b"VALUE k 0 99999999999\r\n", Garbled),
        (MemcachedClient, b"hello\r\n", Garbled),
        (MemcachedClient, b"VALUE k 0 3\r\nab", Cut),
        (MemcachedClient, b"x" * 70_000, Garbled),
        (RedisClient, b"$3\r\nabc\r\n", "ok"),
        (RedisClient, b"*2\r\n$1\r\nk\r\n$3\r\nabc\r\n", "ok"),
        (RedisClient, b"$-1\r\n", "bad_content"),
        (RedisClient, b"-ERR no\r\n", "bad_status"),
        (RedisClient, b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n+abc\r\n", Garbled),
        (RedisClient, b"!3\r\nabc\r\n", Garbled),
        (RedisClient, b"$3\r\nabcd\r\n", Garbled),
        (RedisClient, b"*2\r\n$3\r\nabc\r\n", Cut),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 100_000])
def test_a_reply_in_any_pieces(
    kind: type[ByteClient], data: bytes, expected: str | type[Exception], size: int
) -> None:
    pieces = iter([*(data[at : at + size] for at in range(0, len(data), size)), b""])
    reply = Reply()
    if isinstance(expected, str):
        client(kind).read_reply(pieces, b"abc", reply)
        assert reply.outcome == expected
        assert reply.keep
    else:
        with pytest.raises(expected):
            client(kind).read_reply(pieces, b"abc", reply)


@pytest.mark.parametrize("host", ["127.0.0.1", "198.18.0.11"])
def test_the_own_fleet_s_addresses_are_allowed_anywhere(host: str) -> None:
    assert plan.entry_url(f"http://{host}/").hostname == host


def test_a_private_address_is_allowed_on_a_load_machine_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = tmp_path / "role.env"
    monkeypatch.setattr(plan, "ROLE_FILE", role)
    for content in (None, "ROLE=mariadb\n"):
        if content is not None:
            role.write_text(content)
        with pytest.raises(InputError, match=r"127\.0\.0\.0/8"):
            plan.entry_url("http://10.80.0.11/")
    role.write_text("ROLE=load\n")
    assert plan.entry_url("http://10.80.0.11/").hostname == "10.80.0.11"
    with pytest.raises(InputError, match="nowhere else"):
        plan.entry_url("http://93.184.215.14/")


def test_a_plan_for_a_target_admits_that_address_and_no_other() -> None:
    target = plan.PlanTarget("10.80.0.11", "shop.test")
    assert plan.entry_url("http://10.80.0.11:8080/", target).port == 8080
    for host in ("10.80.0.12", "127.0.0.1", "198.18.0.11", "shop.test"):
        with pytest.raises(InputError):
            plan.entry_url(f"http://{host}/", target)
    six = plan.PlanTarget("2001:db8::5", "[2001:db8::5]")
    assert plan.entry_url("http://[2001:db8::5]:8080/", six).hostname == "2001:db8::5"
    with pytest.raises(InputError):
        plan.entry_url("http://[::1]/", six)


ROLE = {"summary": "s", "port": 8443, "image": "shop:1", "arbiter": True, "state": "none"}
KEYS = 'tls_name = "shop.test"\ninsecure = true\n'


def read(directory: Path, protocol: str, keys: str) -> Design:
    """A design whose entry is a shop of that protocol."""
    role = directory / "roles" / "shop"
    role.mkdir(parents=True)
    (role / "role.json").write_text(json.dumps({**ROLE, "protocol": protocol}))
    tfvars = TFVARS.replace('role = "mediawiki", calls = ["db"],', 'role = "shop",')
    tfvars = tfvars.replace('scheme     = "on-prem"', 'scheme = "on-prem"\nentries = ["web", "db"]')
    text = toml(PAGE, keys=keys).replace("replicas = 2", "replicas = 1")
    write(directory, toml=text, tfvars=tfvars)
    return load_design(directory)


def test_a_tier_that_speaks_tcp_is_asked_by_https_where_a_name_is_stated(tmp_path: Path) -> None:
    design = read(tmp_path, "tcp", KEYS)
    entry = {"tier": "web", "urls": ["tcp://127.0.0.1:8443"]}
    inventory = Inventory.model_construct(
        endpoints=type("Endpoints", (), {"entries": [type("Entry", (), entry)]})
    )
    entries = entries_for(design.workloads[OPERATIONS], design, inventory)
    assert entries == {"web": ("https://127.0.0.1:8443",)}
    load = design.experiment.load
    tls = tls_of(load, design.directory, load.tls_name)
    assert tls is not None
    assert (tls.name, tls.insecure) == ("shop.test", True)


@pytest.mark.parametrize(
    ("protocol", "keys", "key"),
    [("http", KEYS, "load.operations"), ("tcp", "", "load.operations"),
     ("tcp", KEYS + 'ca = "ca.pem"\n', "load.insecure")],
)  # fmt: skip
def test_tls_that_cannot_be_is_refused_by_its_key(
    tmp_path: Path, protocol: str, keys: str, key: str
) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, protocol, keys)
    assert error.value.place.endswith(key)


def test_https_speaks_http() -> None:
    assert [protocol_of(f"{scheme}://127.0.0.1/") for scheme in ("https", "http", "redis")] == [
        "http", "http", "redis",
    ]  # fmt: skip
