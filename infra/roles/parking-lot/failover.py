"""The kind failover on the parking lots: their client, and the entries of their naming service.

etcd is requested by its JSON gateway, over the control network, which has no faults.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from core.errors import SparecraftError
from experiments.design.roles import read_role
from experiments.kinds.failover.service import Happened, Service
from experiments.paths import ROOT

_PROGRAM = ROOT / "build" / "bin" / "parking_lot"
_NAMING, _ARBITER, _DATABASE = "etcd", "arbiter", "parking-lot-database"
_PORT, _SERVED = 2379, 7000
_AUDIT_S = 60.0
_LIMIT_S = 3.0
# As agents/parking_lot/src/naming.rs has them.
_SERVERS, _ORDERS, _HISTORY = "lots/servers/", "lots/orders/", "lots/history/"


class ParkingLot(Service):
    """The parking lots."""

    def command(self, plan: Path, records: Path) -> Sequence[str]:
        """Return the command of all clients, in one process."""
        return [str(_PROGRAM), "invoke", "--plan", str(plan), "--records", str(records)]

    def plan_view(self) -> Mapping[str, Any]:
        """Return the naming service's members, and the arbiter in front of the servers if any."""
        members = ",".join(f"{machine.address}:{_PORT}" for machine in self.machines[_NAMING])
        plan = {"naming": members}
        for machine in self.machines.get(_ARBITER, ()):
            if machine.tier == self.tier:
                plan["arbiter"] = f"{machine.address}:{_SERVED}"
        return plan

    def audit(self, records: Path) -> Mapping[str, int]:
        """Compare the clients' records with the database's ledger and cars."""
        (database,) = self.machines[_DATABASE]
        role = read_role(ROOT / "infra" / "roles" / _DATABASE / "role.json")
        session = role.session
        assert session is not None
        url = (
            f"mysql://{session.user}:{session.password}@{database.address}:{role.port}"
            f"/{session.database}"
        )
        command = [str(_PROGRAM), "audit", "--records", str(records), "--database", url]
        try:
            process = subprocess.run(
                command, capture_output=True, text=True, timeout=_AUDIT_S, check=True
            )
        except subprocess.SubprocessError as error:
            raise SparecraftError(
                f"the audit of {records.name}", expected=f"figures within {_AUDIT_S:g} s",
                got=str(getattr(error, "stderr", None) or error).strip(),
                hint=f"See whether {database.name} serves.",
            ) from error  # fmt: skip
        return dict(json.loads(process.stdout))

    def registered(self) -> frozenset[str]:
        """Return the servers that have a key."""
        return frozenset(key for key, _ in self._list(_SERVERS))

    def orders(self) -> frozenset[str]:
        """Return the servers for which an order has a key."""
        return frozenset(key for key, _ in self._list(_ORDERS))

    def fulfil(self, server: str) -> None:
        """Delete the order of a server."""
        self._ask("kv/deleterange", {"key": _to_base64(f"{_ORDERS}{server}")})

    def history(self) -> Sequence[Happened]:
        """Return the events, which have a key each, by time."""
        events = [json.loads(value) for _, value in self._list(_HISTORY)]
        happenings = [
            Happened(event["at_s"], event["what"], event["server"], event["by"]) for event in events
        ]
        return sorted(happenings, key=lambda event: event.at)

    def _list(self, prefix: str) -> list[tuple[str, str]]:
        """Return keys without the prefix, and their values."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        answer = self._ask("kv/range", {"key": _to_base64(prefix), "range_end": _to_base64(end)})
        return [
            (_from_base64(entry["key"]).removeprefix(prefix), _from_base64(entry.get("value", "")))
            for entry in answer.get("kvs", ())
        ]

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of the first member that gives one."""
        got = "no member"
        for machine in self.machines[_NAMING]:
            host = urlsplit(machine.agent_url).hostname
            try:
                url = f"http://{host}:{_PORT}/v3/{path}"
                response = httpx.post(url, json=body, timeout=_LIMIT_S, trust_env=False)
                response.raise_for_status()
                return dict(response.json())
            except httpx.HTTPError as error:
                got = f"{machine.name}: {error or type(error).__name__}"
        raise SparecraftError(
            "the naming service", expected="an answer of a member", got=got,
            hint="See whether its machines run.",
        )  # fmt: skip


def _to_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _from_base64(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


SERVICE = ParkingLot
