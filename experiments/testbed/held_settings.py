"""Current settings of roles, whose leases are renewed while they are needed.

A killed run renews nothing, so the agents restore the earlier settings within `LEASE_S`. That is
the longest possible lease, and restarted agents keep it, so a machine that is crashed or frozen on
purpose returns with its arm's settings.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from core.errors import SparecraftError
from experiments.design.contracts import LEASE_S_MAX
from experiments.testbed.agents import GONE, Agent, AgentError

LEASE_S = LEASE_S_MAX
_RENEW_EVERY_S = 30.0
_JOIN_S = 60.0  # what is being put again is not cut short


@dataclass(frozen=True)
class _Setting:
    agent: Agent
    settings: Mapping[str, Any]
    id: str


class HeldSettings:
    """Settings by machine, which a thread renews from the first one until `close`.

    `lost`: the machines whose settings were gone at a renewal, and were set again.
    """

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self._held: dict[str, _Setting] = {}
        self._putting: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._closed = threading.Event()
        self._keeper: threading.Thread | None = None

    def put(self, machine: str, agent: Agent, settings: Mapping[str, Any]) -> bool:
        """All settings of the machine's role, until others are put, they are forgotten or this is
        closed. Returns whether its service is restarted for it."""
        with self._putting[machine]:
            return self._put(machine, agent, settings)

    def forget(self, machine: str) -> None:
        """Renew nothing of the machine: it is off."""
        self._held.pop(machine, None)

    def renew(self) -> None:
        """Every lease, once; what is gone is put again."""
        for machine, held in list(self._held.items()):
            try:
                held.agent.renew(held.id, LEASE_S)
            except AgentError as error:
                if error.status in GONE:
                    self._put_again(machine, held)

    def close(self) -> None:
        """Renew nothing any more."""
        self._closed.set()
        if self._keeper is not None:
            self._keeper.join(_JOIN_S)

    def _put(self, machine: str, agent: Agent, settings: Mapping[str, Any]) -> bool:
        restarted, identity = agent.set_settings(settings, LEASE_S)
        if identity is None:
            self.forget(machine)
        else:
            self._held[machine] = _Setting(agent, settings, identity)
            self._keep()
        return restarted

    def _put_again(self, machine: str, held: _Setting) -> None:
        with self._putting[machine]:
            if self._held.get(machine) is held:  # no others were put meanwhile
                self.lost.add(machine)
                with suppress(SparecraftError):  # the next renewal tries again
                    self._put(machine, held.agent, held.settings)

    def _keep(self) -> None:
        if self._keeper is None and not self._closed.is_set():
            self._keeper = threading.Thread(target=self._work, name="settings", daemon=True)
            self._keeper.start()

    def _work(self) -> None:
        while not self._closed.wait(_RENEW_EVERY_S):
            self.renew()
