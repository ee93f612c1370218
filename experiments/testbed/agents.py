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
_TOLD_S = 15.0
_POLL_S = 0.1


GONE = (404, 409)  # of what was to be renewed: not known, or not in force any more


class Health(TypedDict):
    """Service state and readiness of a machine."""

    service: str
    ready: bool
    uptime_s: float


class Capability(TypedDict):
    """Can a machine's kernel inject a fault? With the reason where it cannot."""

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
        """Close the connections."""
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
        refused = AgentError(
            place,
            expected="success",
            got=f"{response.status_code} {_error_text(response)}",
            hint="`GET /v1/capabilities` of the machine lists its possible faults.",
        )
        refused.status = response.status_code
        raise refused


class Agent(_Api):
    """One machine's node agent."""

    def health(self, timeout_s: float | None = None) -> Health:
        """Service state and readiness."""
        timeout = _TIMEOUT if timeout_s is None else httpx.Timeout(timeout_s)
        found: Health = self._call("GET", "/v1/health", timeout=timeout)
        return found

    def capabilities(self) -> dict[str, Capability]:
        """Return the capabilities by fault."""
        return dict(self._call("GET", "/v1/capabilities")["faults"])

    def set_settings(self, settings: Mapping[str, Any], lease_s: float) -> tuple[bool, str | None]:
        """Set all settings of the role: one that is left out has its default. The earlier ones
        are back after `lease_s` unless renewed.

        Returns: whether the role's service is restarted for it, and the id to renew and revert it
        by; None where they are those of before.
        """
        body = {"settings": dict(settings), "lease_s": lease_s}
        answer = self._call("PUT", "/v1/settings", body, _SLOW)
        return bool(answer["restarted"]), answer.get("held")

    def restart_service(self) -> None:
        """Stop the role's service and start it anew."""
        self._call("POST", "/v1/service/restart", timeout=_SLOW)

    def stop_service(self, lease_s: float) -> None:
        """Stop the role's service; the agent starts it after `lease_s` if nobody does before."""
        self._call("POST", "/v1/service/stop", {"lease_s": lease_s}, _SLOW)

    def start_service(self) -> None:
        """Start the role's service."""
        self._call("POST", "/v1/service/start", timeout=_SLOW)

    def inject(self, kind: str, parameters: Mapping[str, Any], lease_s: float) -> str:
        """Start a fault; returns its id. It ends by itself after `lease_s` unless renewed."""
        body = {"kind": kind, "parameters": dict(parameters), "lease_s": lease_s}
        return str(self._call("POST", "/v1/faults", body, _SLOW)["id"])

    def renew(self, fault: str, lease_s: float) -> None:
        """Extend the lease of a fault, or of settings. Raises AgentError with a status of GONE
        where it is over."""
        self._call("PUT", f"/v1/faults/{fault}/lease", {"lease_s": lease_s})

    def revert(self, fault: str) -> JsonObject:
        """End a fault; idempotent."""
        return dict(self._call("DELETE", f"/v1/faults/{fault}", timeout=_SLOW))

    def revert_all(self) -> list[str]:
        """End every fault of the machine, and the settings of its role; returns what could not
        be undone."""
        undone = self._call("DELETE", "/v1/faults", timeout=_SLOW)
        return [f"{one['kind']}: {one['error']}" for one in undone if one.get("error")]

    def faults(self) -> list[JsonObject]:
        """Every fault since the agent's start, reverted ones too."""
        return list(self._call("GET", "/v1/faults"))

    def fingerprint(self) -> Fingerprint:
        """Return the machine's state now."""
        found: Fingerprint = self._call("GET", "/v1/fingerprint", timeout=_SLOW)
        return found


class Arbiter(_Api):
    """One arbiter's admin API."""

    def stats(self) -> JsonObject:
        """Cumulative counters since its start."""
        return dict(self._call("GET", "/v1/stats"))

    def latency(self) -> JsonObject:
        """Latencies of the last seconds, and the histogram since its start."""
        return dict(self._call("GET", "/v1/latency"))

    def config(self) -> JsonObject:
        """Return its present configuration, with live changes."""
        return dict(self._call("GET", "/v1/config"))

    def restore(self, config: Mapping[str, Any]) -> None:
        """Bring policy, tokens, replicas and comparison back to those of an earlier `config`, in
        the order that the arbiter takes: nothing is compared with one replica."""
        self.set_policy(config["policy"], config["tokens"], config.get("look_ahead"))
        steps = [("replicas", {"replicas": config["replicas"]}), ("compare", config["compare"])]
        off = config["compare"]["mode"] == COMPARE_OFF
        for name, body in reversed(steps) if off else steps:
            self._call("PUT", f"/v1/{name}", body)

    def set_replicas(self, replicas: int) -> None:
        """The replication factor for the requests that follow."""
        self._call("PUT", "/v1/replicas", {"replicas": replicas})

    def set_policy(self, policy: str, tokens: int | None, look_ahead: int | None) -> None:
        """The dispatch policy, the tokens per server that it uses, and the servers that it looks
        at beyond the replicas that it needs; None: all."""
        body: dict[str, str | int] = {"policy": policy}
        if tokens is not None:
            body["tokens"] = tokens
        if look_ahead is not None:
            body["look_ahead"] = look_ahead
        self._call("PUT", "/v1/policy", body)

    def set_compare(self, mode: str) -> None:
        """The treatment of the replies of a read's replicas; the rest of it at its defaults."""
        self._call("PUT", "/v1/compare", {"mode": mode})

    def set_server(self, server: str, up: bool) -> JsonObject:
        """Take a server out of the tier at once, or let it in as soon as it answers; its
        statistics."""
        return dict(self._call("PUT", f"/v1/servers/{server}", {"up": up}))

    def is_in(self, server: str) -> bool:
        """True if the server gets requests."""
        return any(one["name"] == server and one["alive"] for one in self.stats()["servers"])


def await_in(arbiter: Arbiter, server: str, pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until the arbiter sends requests to the server; `pause` waits between two looks [s]."""
    deadline = time.monotonic() + _TOLD_S
    while not arbiter.is_in(server):
        if time.monotonic() > deadline:
            raise EnvironmentMissing(
                arbiter.name,
                expected=f"to reach {server} within {_TOLD_S:g} s",
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
