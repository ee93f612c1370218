"""Operations of a scheme on machines: power, readiness, and messages to the arbiters.

Without an arbiter in front of the tier its callers find out by themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import EnvironmentMissing, SparecraftError
from experiments.testbed.agents import Agent, Arbiter, await_in
from experiments.testbed.held_settings import HeldSettings
from experiments.testbed.platforms import Platform

_POLL_S = 0.1
_ASK_S = 2.0


def ignore_progress(line: str) -> None:
    """Ignore Terraform's progress, which nobody follows here."""
    del line


class BlockEnded(SparecraftError):
    """The block ended while a machine was waited for."""


@dataclass(frozen=True)
class MachineOperations:
    """One fleet's machines and arbiters; waits end when `stop` is set.

    `agents`, `tiers` and `settings` (the arm's, of the role) are by machine, also of standbys;
    `arbiters` by tier that has one; `held_settings` are the fleet's settings that are in force.
    """

    platform: Platform
    agents: Mapping[str, Agent]
    arbiters: Mapping[str, Arbiter]
    tiers: Mapping[str, str]
    settings: Mapping[str, Mapping[str, Any]]
    held_settings: HeldSettings

    def ask(self, machine: str, timeout_s: float) -> None:
        """Send a heartbeat. Raises SparecraftError unless agent and role answer in time."""
        health = self.agents[machine].health(timeout_s)
        if not health["ready"]:
            raise EnvironmentMissing(
                f"machine {machine}",
                expected="its role to be ready",
                got=f"service {health['service']}, not ready",
                hint="Its fail-over is under way.",
            )

    def wait_ready(self, machine: str, limit_s: float, stop: threading.Event) -> None:
        """Wait until agent and role answer, with the arm's settings.

        Raises EnvironmentMissing after `limit_s`.
        """
        deadline = time.monotonic() + limit_s
        is_set = machine not in self.settings
        while True:
            try:
                if not is_set:
                    self.held_settings.put(machine, self.agents[machine], self.settings[machine])
                    is_set = True
                return self.ask(machine, _ASK_S)
            except SparecraftError as error:
                if time.monotonic() > deadline:
                    raise EnvironmentMissing(
                        f"machine {machine}",
                        expected=f"to be ready within {limit_s:g} s",
                        got=f"{error.got}; it printed: {self.platform.machine_logs(machine)}",
                        hint="Look into it with `sparecraft up`, or raise ready_timeout_s.",
                    ) from error
            self.pause(_POLL_S, machine, stop)

    def forget_settings(self, machine: str) -> None:
        """Restore the role's defaults of a running machine, which may then serve another arm."""
        self.held_settings.forget(machine)
        if machine in self.settings and self.platform.running(machine):
            self.held_settings.put(machine, self.agents[machine], {})

    def take_out(self, machine: str) -> None:
        """Make the arbiter of its tier, if any, send no requests to it."""
        arbiter = self.arbiters.get(self.tiers[machine])
        if arbiter is not None:
            arbiter.set_server(machine, False)

    def let_in(self, machine: str, stop: threading.Event) -> None:
        """Make the arbiter of its tier send requests to it again, and wait until it does."""
        arbiter = self.arbiters.get(self.tiers[machine])
        if arbiter is None:
            return
        arbiter.set_server(machine, True)
        await_in(arbiter, machine, lambda length_s: self.pause(length_s, machine, stop))

    def pause(self, length_s: float, machine: str, stop: threading.Event) -> None:
        """Wait. Raises BlockEnded if the block ends meanwhile."""
        if stop.wait(length_s):
            raise BlockEnded(
                f"machine {machine}",
                expected="time to come back",
                got="the end of the block",
                hint="Nothing: it is brought back before the next one.",
            )

    def power_on(self, machine: str, *, as_new: bool) -> None:
        """Make the machine run; `as_new`: as a new machine, if it does not run."""
        if self.platform.running(machine):
            return
        if as_new:
            self.platform.replace(machine, ignore_progress)
        else:
            self.platform.start(machine)
