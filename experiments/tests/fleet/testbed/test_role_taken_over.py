"""A role that was taken over, on a fleet: what it reaches of agents, arbiter, InfluxDB, neighbours
and host, as root and as a user. What one machine alone shows is in the node agent's own tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from shlex import quote
from urllib.parse import urlsplit

import httpx
import pytest

from experiments.design.roles import find_roles
from experiments.paths import ROOT
from experiments.testbed.agents import AgentError
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.platforms.local.platform import STACK
from experiments.testbed.platforms.terraform import Stack
from experiments.tests.fleets import live
from experiments.tests.started import until

FOLDER = ROOT / "experiments" / "tests" / "designs" / "taken"
EXPERIMENT, OWN, NEIGHBOUR = "tst-taken", "web-1", "web-2"
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

# Each table: the name of a way, and a bash script that ends with 0 where the way is open.
_PAIR = "--cert /etc/sparecraft/tls/cert.pem --key /etc/sparecraft/tls/key.pem"
_JSON = "-H content-type:application/json -d"
_FAULT = f'{_JSON} \'{{"kind":"process.crash","parameters":{{}},"lease_s":9}}\''
_POLICY = f'-X PUT {_JSON} \'{{"policy":"random"}}\''
_SOCKET = "python3 -c 'from socket import *;"
_EACH_AGENT = "for p in $(pgrep nodeagent); do"
_QUERY = "curl -sf http://$DATABASE:8086/query --data-urlencode"


def _opens(*names: str) -> str:
    """A way that is open where a file of such a name can be opened for writing; nothing is
    written."""
    conditions = " -o ".join(f"-name {name}" for name in names)
    files = rf"$(find / -path /proc -prune -o \( {conditions} \) -print)"
    return f'for f in {files}; do {{ : >>"$f"; }} && exit; done; false'


# Open to both users: they prove that the programs of the scripts are there.
MAY = {
    "a neighbour's service": "curl -sf http://$NEIGHBOUR_DATA:8080/",
    "its own agent's port": "exec 3<>/dev/tcp/$OWN/7443",
    "a neighbour's agent's port": "exec 3<>/dev/tcp/$NEIGHBOUR/7443",
    "the arbiter's admin port": "exec 3<>/dev/tcp/$ARBITER/9300",
    "to be told that InfluxDB runs": "curl -sf http://$DATABASE:8086/ping",
    "a socket by Python": f"{_SOCKET} socket()'",
    "a file to write to": "f=$(mktemp) && : >>$f",
    "the agent's process": "pgrep nodeagent && ip address && tc qdisc",
}
ROOT_MAY = {
    "InfluxDB's password": "cat /etc/sparecraft/influxdb-login",
    "its machine's key": "cat /etc/sparecraft/tls/key.pem",
}
AGENTS = {
    "its own agent, as nobody": "curl -skf https://$OWN:7443/v1/health",
    "its own agent, by loopback": "curl -skf https://127.0.0.1:7443/v1/health",
    "its own agent, as its machine": f"curl -skf {_PAIR} https://$OWN:7443/v1/health",
    "a neighbour's agent, as nobody": "curl -skf https://$NEIGHBOUR:7443/v1/health",
    "a neighbour's agent, as a machine": f"curl -skf {_PAIR} https://$NEIGHBOUR:7443/v1/health",
    "a fault for a neighbour": f"curl -skf {_PAIR} {_FAULT} https://$NEIGHBOUR:7443/v1/faults",
    "an agent by its data address": "exec 3<>/dev/tcp/$NEIGHBOUR_DATA/7443",
    "the arbiter's figures, as nobody": "curl -skf https://$ARBITER:9300/v1/stats",
    "the arbiter's figures, in clear": "curl -sf http://$ARBITER:9300/v1/stats",
    "the arbiter's figures, as a machine": f"curl -skf {_PAIR} https://$ARBITER:9300/v1/stats",
    "another policy": f"curl -skf {_PAIR} {_POLICY} https://$ARBITER:9300/v1/policy",
    "the arbiter's admin by its data address": "exec 3<>/dev/tcp/$ARBITER_DATA/9300",
    "an agent's environment": f"{_EACH_AGENT} cat /proc/$p/environ && exit; done; false",
    "an agent's memory": f"{_EACH_AGENT} {{ : </proc/$p/mem; }} && exit; done; false",
}
DATABASE = {
    "names of databases": f"{_QUERY} 'q=SHOW DATABASES'",
    "samples": f"{_QUERY} 'q=SELECT * FROM sparecraft..host'",
    "samples, by a guessed password": f"{_QUERY} 'q=SHOW DATABASES' -u sparecraft:sparecraft",
    "a user of its own": f"{_QUERY} \"q=CREATE USER x WITH PASSWORD 'x' WITH ALL PRIVILEGES\"",
    "a sample": "curl -sf 'http://$DATABASE:8086/write?db=sparecraft' --data-binary 'host x=1'",
    "its time": "curl -sf 'http://$DATABASE:8086/debug/pprof/profile?seconds=1'",
    "its memory's profile": "curl -sf http://$DATABASE:8086/debug/pprof/heap",
    "its backup": "exec 3<>/dev/tcp/$DATABASE/8088",
}
NEIGHBOURS = {
    "a neighbour's data address": "ip address add $NEIGHBOUR_DATA/32 dev lo",
    "a neighbour's control address": "ip address add $NEIGHBOUR/32 dev lo",
    "another way to a neighbour": "ip route add $NEIGHBOUR/32 dev lo",
    "a neighbour's hardware address": "ip link set dev eth0 address 02:42:c6:12:01:0b",
    "frames in a neighbour's name": f"{_SOCKET} socket(AF_PACKET, SOCK_RAW)'",
    "packets in a neighbour's name": f"{_SOCKET} socket(AF_INET, SOCK_RAW, 1)'",
    "the guard of the control network": "nft flush ruleset",
    "a slow network": "tc qdisc add dev eth0 root tbf rate 1kbit burst 1k limit 1k",
}
HOST = {
    "the host's core pattern": ": >>/proc/sys/kernel/core_pattern",
    "the host's keys": ": >>/proc/sysrq-trigger",
    "the host's caches": ": >>/proc/sys/vm/drop_caches",
    "a program that the host calls": _opens("release_agent", "uevent_helper"),
    "its limit of memory": _opens("memory.limit_in_bytes", "memory.max"),
    "its limit of processors": _opens("cpu.cfs_quota_us", "cpu.max"),
    "another cgroup": _opens("cgroup.procs", "tasks"),
    "the host's memory": "head -c1 /dev/mem || head -c1 /proc/kcore",
    "the kernel's log": "[ -c /dev/kmsg ] && : >>/dev/kmsg",
    "a disk of the host": "for f in $(find /dev -type b); do head -c1 $f && exit; done; false",
    "the engine's socket": '[ -n "$(find / -path /proc -prune -o -name docker.sock -print)" ]',
    "the engine by the data network": "exec 3<>/dev/tcp/$GATEWAY_DATA/2375",
    "the engine by the control network": "exec 3<>/dev/tcp/$GATEWAY/2375",
    "a port for this host alone": "exec 3<>/dev/tcp/$GATEWAY_DATA/$PUBLISHED",
    "the same by the control network": "exec 3<>/dev/tcp/$GATEWAY/$PUBLISHED",
    "a module of the kernel": "modprobe dummy",
}
USER = {
    **ROOT_MAY,
    "the agent's end": "kill -KILL $(pidof nodeagent)",
    "its rest": "kill -STOP $(pidof nodeagent)",
}
WAYS = {**AGENTS, **DATABASE, **NEIGHBOURS, **HOST}


class TakenOver:
    """The role of one machine, which runs what it is sent."""

    def __init__(self, fleet: Fleet) -> None:
        machine = fleet.inventory.machine
        (arbiter,) = fleet.inventory.arbiters
        own_machine, database = machine(OWN), machine("influxdb-1")
        machines = {"OWN": own_machine, "NEIGHBOUR": machine(NEIGHBOUR), "ARBITER": arbiter}
        machines["DATABASE"] = database
        self._url = f"http://{own_machine.address}:8080"
        self._words = {
            name: str(urlsplit(host.agent_url).hostname) for name, host in machines.items()
        }
        self._words |= {f"{name}_DATA": host.address for name, host in machines.items()}
        variables = Stack(STACK, EXPERIMENT).variables
        for name, network in (("GATEWAY", "control_cidr"), ("GATEWAY_DATA", "data_cidr")):
            self._words[name] = str(ip_network(variables[network])[1])
        self._words["PUBLISHED"] = str(urlsplit(fleet.inventory.endpoints.influxdb).port)

    def open(self, ways: dict[str, str], user: str) -> set[str]:
        """Names of the ways that are open to this user, `root` or `user`."""
        script = "".join(f"export {name}={value}\n" for name, value in self._words.items())
        for name, way in ways.items():
            command = f"timeout 15 bash -c {quote(way)} >/dev/null 2>&1 </dev/null"
            script += f"{command} && echo {quote(name)}\n"
        reply = httpx.post(f"{self._url}/{user}", content=script, timeout=600.0, trust_env=False)
        return set(reply.text.splitlines())


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with live(EXPERIMENT, FOLDER / "fleet.tfvars", find_roles(FOLDER)) as live_fleet:
        yield live_fleet


@pytest.mark.parametrize("user", ["root", "user"])
def test_a_role_that_is_taken_over_reaches_no_agent_database_neighbour_or_host(
    fleet: Fleet, user: str
) -> None:
    role = TakenOver(fleet)
    allowed_ways = MAY | (ROOT_MAY if user == "root" else {})
    assert role.open(allowed_ways, user) == set(allowed_ways)
    assert role.open(WAYS if user == "root" else WAYS | USER, user) == set()
    assert [fault for name in (OWN, NEIGHBOUR) for fault in fleet.agents[name].faults()] == []


def test_an_agent_that_a_role_freezes_or_kills_still_undoes_a_fault(fleet: Fleet) -> None:
    role, agent = TakenOver(fleet), fleet.agents[OWN]

    def undone() -> bool:
        try:
            return all(fault["state"] == "reverted" for fault in agent.faults())
        except AgentError:
            return False

    for signal in ("STOP", "KILL"):
        agent.inject("cpu.limp", {"factor": 2}, 5.0)
        assert role.open({signal: f"kill -{signal} $(pidof nodeagent)"}, "root") == {signal}
        until(f"the end of the lease after SIG{signal}", undone)
