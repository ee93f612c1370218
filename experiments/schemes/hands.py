"""What is done to machines: power, readiness, and what the arbiters are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from experiments.errors import EnvironmentMissing, SparecraftError
from experiments.platform import Platform

_POLL_S = 0.1
_ASK_S = 2.0
_TOLD_S = 15.0


def silent(line: str) -> None:
    """Terraform's progress, which nobody follows here."""
    del line


class Health(Protocol):
    """A node agent."""

    def health(self, timeout_s: float | None = None) -> dict[str, Any]: ...


class Servers(Protocol):
    """An arbiter's admin API."""

    def set_server(self, server: str, up: bool) -> dict[str, Any]: ...
    def is_in(self, server: str) -> bool: ...


class Stopped(SparecraftError):
    """The block ended while a machine was waited for."""


class Hands:
    """One fleet's machines and arbiters; waits end when `stop` is set."""

    def __init__(
        self,
        platform: Platform,
        agents: Mapping[str, Health],
        arbiters: Mapping[str, Servers],
        tiers: Mapping[str, str],
    ) -> None:
        """`agents` and `tiers`: by machine, standbys too; `arbiters`: by tier."""
        self.platform = platform
        self.tiers = tiers
        self._agents = agents
        self._arbiters = arbiters

    def ask(self, machine: str, timeout_s: float) -> None:
        """A heartbeat. Raises SparecraftError unless agent and role answer in time."""
        health = self._agents[machine].health(timeout_s)
        if not health["ready"]:
            raise EnvironmentMissing(
                f"machine {machine}",
                expected="its role to be ready",
                came=f"service {health['service']}, not ready",
                do="Its fail-over is under way.",
            )

    def wait_ready(self, machine: str, limit_s: float, stop: threading.Event) -> None:
        """Until agent and role answer. Raises EnvironmentMissing after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                return self.ask(machine, _ASK_S)
            except SparecraftError as error:
                if time.monotonic() > deadline:
                    raise EnvironmentMissing(
                        f"machine {machine}",
                        expected=f"to be ready within {limit_s:g} s",
                        came=f"{error.came}; it printed: {self.platform.machine_logs(machine)}",
                        do="Look into it with `sparecraft up`, or raise ready_timeout_s.",
                    ) from error
            self.pause(_POLL_S, machine, stop)

    def take_out(self, machine: str) -> None:
        """Its tier's arbiter sends nothing there any more."""
        self._arbiters[self.tiers[machine]].set_server(machine, False)

    def let_in(self, machine: str, stop: threading.Event) -> None:
        """Its tier's arbiter sends requests there again; returns when it does."""
        arbiter = self._arbiters[self.tiers[machine]]
        arbiter.set_server(machine, True)
        deadline = time.monotonic() + _TOLD_S
        while not arbiter.is_in(machine):
            if time.monotonic() > deadline:
                raise EnvironmentMissing(
                    f"arbiter of tier {self.tiers[machine]}",
                    expected=f"to reach {machine} within {_TOLD_S:g} s",
                    came="no answer at its service's address",
                    do="See whether the machine's data network is there.",
                )
            self.pause(_POLL_S, machine, stop)

    def pause(self, length_s: float, machine: str, stop: threading.Event) -> None:
        """Wait. Raises Stopped where the block ends meanwhile."""
        if stop.wait(length_s):
            raise Stopped(
                f"machine {machine}",
                expected="time to come back",
                came="the end of the block",
                do="Nothing: it is brought back before the next one.",
            )

    def power_on(self, machine: str, *, anew: bool) -> None:
        """See that it runs; `anew`: as a new machine, where it does not."""
        if self.platform.running(machine):
            return
        if anew:
            self.platform.replace(machine, silent)
        else:
            self.platform.start(machine)
