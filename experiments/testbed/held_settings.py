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
_JOIN_S = 60.0  # settings that are being put again are not cut short


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
        self._settings: dict[str, _Setting] = {}
        self._putting: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._closed = threading.Event()
        self._keeper: threading.Thread | None = None

    def put(self, machine: str, agent: Agent, settings: Mapping[str, Any]) -> bool:
        """Put all settings of the machine's role, until others are put, they are forgotten or this
        is closed. Returns whether its service is restarted for them."""
        with self._putting[machine]:
            return self._put(machine, agent, settings)

    def forget(self, machine: str) -> None:
        """Renew nothing of the machine: it is off."""
        self._settings.pop(machine, None)

    def renew(self) -> None:
        """Renew every lease once; settings that are gone are put again."""
        for machine, setting in list(self._settings.items()):
            try:
                setting.agent.renew(setting.id, LEASE_S)
            except AgentError as error:
                if error.status in GONE:
                    self._put_again(machine, setting)

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
            self._settings[machine] = _Setting(agent, settings, identity)
            self._keep()
        return restarted

    def _put_again(self, machine: str, setting: _Setting) -> None:
        with self._putting[machine]:
            if self._settings.get(machine) is setting:  # no others were put meanwhile
                self.lost.add(machine)
                with suppress(SparecraftError):  # the next renewal tries again
                    self._put(machine, setting.agent, setting.settings)

    def _keep(self) -> None:
        if self._keeper is None and not self._closed.is_set():
            self._keeper = threading.Thread(target=self._work, name="settings", daemon=True)
            self._keeper.start()

    def _work(self) -> None:
        while not self._closed.wait(_RENEW_EVERY_S):
            self.renew()
