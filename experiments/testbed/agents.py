"""Clients of the two APIs in the fleet, both by mutual TLS: node agent's and arbiter's admin."""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import httpx

from core.errors import EnvironmentMissing, SparecraftError
from core.json_object import JsonObject
from experiments.design.contracts import COMPARE_OFF
from experiments.design.inventory import Identity, Machine

_TIMEOUT = httpx.Timeout(5.0)
# Crashing a role waits for its end, and starting it for its first answer.
_SLOW = httpx.Timeout(30.0)
_REACH_S = 15.0
_POLL_S = 0.1


GONE = (404, 409)  # of a fault or setting to renew: it is not known, or not in force any more


class Health(TypedDict):
    """Service state and readiness of a machine."""

    service: str
    ready: bool
    uptime_s: float


class Capability(TypedDict):
    """A machine's ability to inject a fault, with the reason where it cannot."""

    available: bool
    reason: NotRequired[str]


class Fingerprint(TypedDict):
    """A machine's state against that before the first fault."""

    clean: bool
    differences: list[str]


class AgentError(SparecraftError):
    """An agent or arbiter refused, with an HTTP status, or did not answer."""

    status: int | None = None


@dataclass(frozen=True)
class _Api:
    name: str
    client: httpx.Client

    def close(self) -> None:
        self.client.close()

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: httpx.Timeout = _TIMEOUT,
    ) -> Any:
        place = f"{self.name}: {method} {path}"
        try:
            response = self.client.request(method, path, json=body, timeout=timeout)
        except httpx.HTTPError as error:
            got = str(error) or type(error).__name__
            raise AgentError(
                place, expected="an answer", got=got, hint="See whether the machine runs."
            ) from error
        if response.is_success:
            return response.json() if response.content else None
        refusal = AgentError(
            place,
            expected="success",
            got=f"{response.status_code} {_error_text(response)}",
            hint="`GET /v1/capabilities` of the machine lists its possible faults.",
        )
        refusal.status = response.status_code
        raise refusal


class Agent(_Api):
    """One machine's node agent."""

    def health(self, timeout_s: float | None = None) -> Health:
        timeout = _TIMEOUT if timeout_s is None else httpx.Timeout(timeout_s)
        health: Health = self._call("GET", "/v1/health", timeout=timeout)
        return health

    def capabilities(self) -> dict[str, Capability]:
        return dict(self._call("GET", "/v1/capabilities")["faults"])

    def set_settings(self, settings: Mapping[str, Any], lease_s: float) -> tuple[bool, str | None]:
        """Set all settings of the role; one that is left out gets its default. The agent restores
        the earlier settings after `lease_s` unless the lease is renewed.

        Returns: whether the role's service is restarted for them, and the id by which to renew and
        revert them; None if the settings are the same as before.
        """
        body = {"settings": dict(settings), "lease_s": lease_s}
        answer = self._call("PUT", "/v1/settings", body, _SLOW)
        return bool(answer["restarted"]), answer.get("held")

    def restart_service(self) -> None:
        self._call("POST", "/v1/service/restart", timeout=_SLOW)

    def stop_service(self, lease_s: float) -> None:
        """Stop the role's service; the agent starts it after `lease_s` if nobody does before."""
        self._call("POST", "/v1/service/stop", {"lease_s": lease_s}, _SLOW)

    def start_service(self) -> None:
        self._call("POST", "/v1/service/start", timeout=_SLOW)

    def inject(self, kind: str, parameters: Mapping[str, Any], lease_s: float) -> str:
        """Start a fault; returns its id. It ends by itself after `lease_s` unless renewed."""
        body = {"kind": kind, "parameters": dict(parameters), "lease_s": lease_s}
        return str(self._call("POST", "/v1/faults", body, _SLOW)["id"])

    def renew(self, fault: str, lease_s: float) -> None:
        """Extend the lease of a fault, or of settings. Raises AgentError with a status of GONE if
        it is over."""
        self._call("PUT", f"/v1/faults/{fault}/lease", {"lease_s": lease_s})

    def revert(self, fault: str) -> JsonObject:
        """End a fault; idempotent."""
        return dict(self._call("DELETE", f"/v1/faults/{fault}", timeout=_SLOW))

    def revert_all(self) -> list[str]:
        """End every fault of the machine, and the settings of its role; returns what could not
        be undone."""
        entries = self._call("DELETE", "/v1/faults", timeout=_SLOW)
        return [f"{entry['kind']}: {entry['error']}" for entry in entries if entry.get("error")]

    def faults(self) -> list[JsonObject]:
        """Return every fault since the agent's start, also reverted ones."""
        return list(self._call("GET", "/v1/faults"))

    def fingerprint(self) -> Fingerprint:
        fingerprint: Fingerprint = self._call("GET", "/v1/fingerprint", timeout=_SLOW)
        return fingerprint


class Arbiter(_Api):
    """One arbiter's admin API."""

    def stats(self) -> JsonObject:
        """Return cumulative counters since the arbiter's start."""
        return dict(self._call("GET", "/v1/stats"))

    def latency(self) -> JsonObject:
        """Return latencies of the last seconds, and the histogram since the arbiter's start."""
        return dict(self._call("GET", "/v1/latency"))

    def config(self) -> JsonObject:
        """Return the present configuration, with live changes."""
        return dict(self._call("GET", "/v1/config"))

    def restore(self, config: Mapping[str, Any]) -> None:
        """Restore policy, tokens, replicas and comparison of an earlier `config`, in an order that
        the arbiter accepts: it compares nothing with one replica."""
        self.set_policy(config["policy"], config["tokens"], config.get("look_ahead"))
        steps = [("replicas", {"replicas": config["replicas"]}), ("compare", config["compare"])]
        off = config["compare"]["mode"] == COMPARE_OFF
        for name, body in reversed(steps) if off else steps:
            self._call("PUT", f"/v1/{name}", body)

    def set_replicas(self, replicas: int) -> None:
        """Set the replication factor for the requests that follow."""
        self._call("PUT", "/v1/replicas", {"replicas": replicas})

    def set_policy(self, policy: str, tokens: int | None, look_ahead: int | None) -> None:
        """Set the dispatch policy, the tokens per server that it uses, and the number of servers
        that it looks at beyond the replicas that it needs; None: all."""
        body: dict[str, str | int] = {"policy": policy}
        if tokens is not None:
            body["tokens"] = tokens
        if look_ahead is not None:
            body["look_ahead"] = look_ahead
        self._call("PUT", "/v1/policy", body)

    def set_compare(self, mode: str) -> None:
        """Set the treatment of the replies of a read's replicas; its other values are defaults."""
        self._call("PUT", "/v1/compare", {"mode": mode})

    def set_server(self, server: str, up: bool) -> JsonObject:
        """Take a server out of the tier at once, or let it in as soon as it answers; returns its
        statistics."""
        return dict(self._call("PUT", f"/v1/servers/{server}", {"up": up}))

    def is_in(self, server: str) -> bool:
        """True if the server gets requests."""
        return any(entry["name"] == server and entry["alive"] for entry in self.stats()["servers"])


def await_in(arbiter: Arbiter, server: str, pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until the arbiter sends requests to the server; `pause` waits between two looks [s]."""
    deadline = time.monotonic() + _REACH_S
    while not arbiter.is_in(server):
        if time.monotonic() > deadline:
            raise EnvironmentMissing(
                arbiter.name,
                expected=f"to reach {server} within {_REACH_S:g} s",
                got="no answer at its service's address",
                hint="See with `sparecraft up` what its role says to its settings, and whether its "
                "data network is there.",
            )
        pause(_POLL_S)


def connect_agent(machine: Machine, context: ssl.SSLContext) -> Agent:
    """Return a client for a machine's agent; `context` comes from `tls_context`."""
    client = httpx.Client(base_url=machine.agent_url, verify=context, trust_env=False)
    return Agent(machine.name, client)


def connect_arbiter(machine: Machine, context: ssl.SSLContext) -> Arbiter:
    """Return a client for an arbiter's admin API; `context` comes from `tls_context`."""
    client = httpx.Client(base_url=machine.admin_url, verify=context, trust_env=False)
    return Arbiter(machine.name, client)


def tls_context(identity: Identity) -> ssl.SSLContext:
    """Trust the experiment's own CA and nothing else; present the client certificate."""
    context = ssl.create_default_context(cadata=identity.ca_certificate_pem)
    # ssl reads keys only from a file: a private one, gone before this returns.
    with tempfile.TemporaryDirectory() as directory:
        pem = Path(directory) / "client.pem"
        descriptor = os.open(pem, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(identity.client_private_key_pem + identity.client_certificate_pem)
        context.load_cert_chain(pem)
    return context


def _error_text(response: httpx.Response) -> str:
    try:
        body = response.json()
    except ValueError:
        return response.text.strip()
    return str(body.get("error", body)) if isinstance(body, dict) else str(body)
