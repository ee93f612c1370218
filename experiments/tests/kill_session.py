"""Runs on a live fleet whose parts are killed; what has to be true after each kill is asserted."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path

from core.errors import SparecraftError
from experiments.design.roles import find_roles
from experiments.load.plan import LoadPlan, read_plan
from experiments.load.record_reader import RecordReader
from experiments.record.telemetry import InfluxQuery
from experiments.testbed.fleet import await_ready, connect, disconnect
from experiments.testbed.live_fleet import Fleet
from experiments.testbed.platforms.local import docker
from experiments.testbed.platforms.local.platform import LocalPlatform
from experiments.tests.called import sparecraft
from experiments.tests.engine import docker as call_docker
from experiments.tests.fleets import Started
from experiments.tests.kills import CACHES, EXPERIMENT, Kill, faulty, not_recorded, processes_of
from experiments.tests.load_fixture import alive, children
from experiments.tests.started import until

ARBITER, INFLUXDB = "arbiter-cache", "influxdb-1"
_WAIT_S = 120.0
# What a fault can leave, as the machine says; many of a fault's things have its id in their name.
_LOOK = (
    "tc qdisc show; nft --stateless list ruleset netdev; ip -o link | cut -d: -f2 | cut -d@ -f1; "
    "ps -eo stat=,comm= | grep ^T; grep -aoh 'SPARECRAFT_FAULT=[^[:cntrl:]]*' /proc/*/environ; true"
)
Held = Mapping[str, set[str]]  # faults in force, by machine


class Session:
    """Runs of one design on one fleet, one after another, and the kills in them."""

    def __init__(self, folder: Path, design: Path) -> None:
        self.folder = folder
        self.design = faulty(design, folder / "design")
        self.platform = LocalPlatform(EXPERIMENT)
        self.undone_s: dict[str, list[float]] = {}  # by target, from the kill on
        self.lost: set[str] = set()  # machines that the run under way has missed
        self._runs = 0

    def up(self) -> None:
        """Start a fleet and note the state of its caches, which nothing has disturbed yet."""
        process = sparecraft("up", str(self.design))
        assert process.returncode == 0, process.stdout + process.stderr
        self.fleet: Fleet = connect(self.platform, self.platform.inventory())
        self._clean = {name: self._look(name) for name in CACHES}

    def begin(self) -> None:
        """Start a run on the fleet and wait until a fault is in force."""
        self._runs += 1
        self.lost = set()
        self.started = Started(self.folder / f"run-{self._runs}", "run", str(self.design))
        self.started.until_event(action="inject")

    def down(self) -> None:
        """Remove the fleet with `sparecraft down`, and check that nothing is left."""
        process = sparecraft("down", EXPERIMENT)
        assert process.returncode == 0, process.stdout + process.stderr
        self.nothing_is_left()

    def nothing_is_left(self) -> None:
        """The fleet is gone, and so is whatever was started."""
        disconnect(self.fleet)
        assert docker.find(EXPERIMENT) == []
        assert processes_of(self.folder) == []

    @property
    def run(self) -> Path:
        [folder] = self.started.results.glob("*/2*")
        return folder

    @property
    def plan(self) -> LoadPlan:
        """The load of the run under way."""
        return read_plan(self.run / "load" / "block-00.plan.json")

    # kills

    def strike(self, kill: Kill, *, last: bool) -> str:
        """Kill it, hold what came of it against what is promised, and mend it (but the last);
        says what was killed, where, and what was in force."""
        assert self.started.process.poll() is None, self.started.output
        until("fault in force", lambda: bool(self._in_force()))
        time.sleep(kill.pause_s)  # the moment is drawn
        by_machine = self._in_force()
        machine = kill.of(CACHES)
        if kill.target == "runner":
            machine = ""
            self._kill_runner(by_machine)
        elif kill.target == "agent":
            machine = kill.of(by_machine or CACHES)
            self._kill_agent(machine, by_machine.get(machine, set()))
        elif kill.target == "influxdb":
            machine = INFLUXDB
            self._kill_influxdb(stays=last)
        elif kill.target == "arbiter":
            machine = ARBITER
            self._kill_arbiter()
        else:
            self._kill_machine(machine)
        in_force = (
            ", ".join(f"{len(ids)} on {name}" for name, ids in by_machine.items()) or "nothing"
        )
        return f"{kill.target} {machine}, {in_force} in force"

    def _kill_runner(self, by_machine: Held) -> None:
        load = children(self.started.process.pid)
        began = time.monotonic()
        self.started.process.kill()
        self.started.process.wait()
        until("lease that ended", lambda: not self._in_force())
        self.undone_s.setdefault("runner", []).append(time.monotonic() - began)
        assert alive(load) == []
        for name in CACHES:
            agent = self.fleet.agents[name]
            reasons = {fault["id"]: fault["revert_reason"] for fault in agent.faults()}
            # the run itself may have ended one between the look and the kill
            assert {reasons[fault_id] for fault_id in by_machine.get(name, ())} <= {
                "lease",
                "requested",
            }
            assert agent.fingerprint()["differences"] == []
            self._until_clean(name)
        self._all_was_recorded()

    def _kill_agent(self, machine: str, ids: set[str]) -> None:
        agent = self.fleet.agents[machine]

        def undone() -> bool:
            try:
                states = {fault["id"]: fault["state"] for fault in agent.faults()}
            except SparecraftError:
                return False
            # one that ended between the look and the kill is not in the journal any more
            return all(states.get(fault_id, "reverted") == "reverted" for fault_id in ids)

        began = time.monotonic()
        # Process 1 starts it again; the others of this program are neighbours.
        self._kill_process(machine, "-P 1 -f -x /opt/sparecraft/bin/nodeagent")
        until(f"undo on {machine}", undone)
        self.undone_s.setdefault("agent", []).append(time.monotonic() - began)
        remains = [
            line for line in self._look(machine) if any(fault_id in line for fault_id in ids)
        ]
        assert remains == []

    def _kill_influxdb(self, *, stays: bool) -> None:
        before = self._points()
        self._kill_process(INFLUXDB, "-x influxd")
        until("spool", (self.run / "telemetry.lp").exists)
        if not stays:
            recorded = len(self._lines())
            self._start_service(INFLUXDB)
            # what it had taken, and what has waited since
            until("delivery", lambda: self._points() >= max(before, recorded))

    def _kill_arbiter(self) -> None:
        self._kill_process(ARBITER, "-x arbiter")
        until("refused request", lambda: self._outcome() == "connection_error")
        self._start_service(ARBITER)
        until("answer", lambda: self._outcome() == "ok")

    def _kill_machine(self, machine: str) -> None:
        count = len(self.started.events())
        self.lost.add(machine)
        self.platform.stop(machine)

        def noticed(action: str) -> bool:
            values = {"what": "machine", "machine": machine, "action": action}
            return any(values.items() <= event.items() for event in self.started.events()[count:])

        until(f"loss of {machine}", lambda: noticed("start"))
        self.platform.start(machine)
        await_ready(self.fleet, find_roles(), {machine: self.fleet.agents[machine]})
        until(f"return of {machine}", lambda: noticed("end"))

    # what is there

    def _inside(self, machine: str, command: str) -> str:
        return call_docker("exec", self.platform.container(machine), "bash", "-c", command)

    def _kill_process(self, machine: str, options: str) -> None:
        """Kill the one process there that `pgrep` finds by these options."""
        pids = self._inside(machine, f"pgrep {options}").split()
        assert len(pids) == 1, f"{machine}: pgrep {options} finds {pids}"
        self._inside(machine, f"kill -KILL {pids[0]}")

    def _look(self, machine: str) -> list[str]:
        lines = self._inside(machine, _LOOK).splitlines()
        return sorted(re.sub(r"(eth|refcnt )\d+", r"\1", line) for line in lines)  # differ by start

    def _until_clean(self, machine: str) -> None:
        """Wait until the machine is clean: a process that was told to end may take its time."""
        before = self._clean[machine]
        deadline = time.monotonic() + _WAIT_S
        while (now := self._look(machine)) != before:
            assert time.monotonic() < deadline, f"{machine} was {before} and is {now}"

    def _start_service(self, machine: str) -> None:
        self.fleet.agents[machine].client.post("/v1/service/start").raise_for_status()

    def _in_force(self) -> dict[str, set[str]]:
        """Return the ids of the faults in force, by cache that answers."""
        by_machine = {}
        for name in CACHES:
            try:
                faults = self.fleet.agents[name].faults()
            except SparecraftError:
                continue
            if ids := {fault["id"] for fault in faults if fault["state"] != "reverted"}:
                by_machine[name] = ids
        return by_machine

    def _points(self) -> int:
        """Requests of this run that InfluxDB has; -1 where it does not answer."""
        query = InfluxQuery(self.fleet.influxdb)
        try:
            return query.points(self.run.name).get("request", 0)
        except SparecraftError:
            return -1
        finally:
            query.close()

    def _lines(self) -> list[bytes]:
        """The records so far, without one that is being written."""
        return (self.run / "load" / "block-00.jsonl").read_bytes().split(b"\n")[:-1]

    def _outcome(self) -> str:
        return str(json.loads(self._lines()[-1])["outcome"])

    def _all_was_recorded(self) -> None:
        """Of a run that is no more: each record is whole, and there is one of each request but
        those in flight at the end."""
        load = self.run / "load"
        reader = RecordReader(load / "block-00.jsonl", self.plan)
        records = reader.take()
        assert (reader.problem, len(records)) == ("", len(self._lines()))
        assert not_recorded(records, self.plan) == []
        assert "Traceback" not in (load / "block-00.log").read_text()
        assert all(event["action"] for event in self.started.events())
