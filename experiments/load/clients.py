"""The client of each entry of a plan: its protocol's, or the workload's own."""

from __future__ import annotations

from collections.abc import Callable

from core.errors import InputError
from experiments.design.contracts import PROTOCOLS
from experiments.design.workloads import MODULE, module_at
from experiments.load.client import Client
from experiments.load.http_operation import host_of
from experiments.load.plan import ClientClass, LoadPlan, entry_url, protocol_of
from experiments.load.protocols import client_class
from experiments.paths import ROOT


def clients_of(plan: LoadPlan, clock: Callable[[], float]) -> dict[str, Client]:
    """Return the clients by URL.

    Raises: InputError for a protocol without a client and a URL without a port.
    """
    return {url: _client(plan, url, clock) for urls in plan.entries.values() for url in urls}


def _client(plan: LoadPlan, url: str, clock: Callable[[], float]) -> Client:
    parts = entry_url(url, plan.target)
    client_type = plan_client_class(plan.client) if plan.client else client_class(protocol_of(url))
    known = PROTOCOLS.get(parts.scheme)
    port = parts.port or (known.default_port if known else None)
    if port is None:
        raise InputError("load: entry", expected="a port", got=url, hint="Add it to the URL.")
    options: dict[str, object] = {}
    if plan.target and not plan.client:
        options["authority"] = plan.target.authority
    if parts.scheme == "https":
        options["tls"] = plan.tls
    client = client_type(
        (str(parts.hostname), port),
        connect_timeout_s=plan.load.connect_timeout_s,
        response_timeout_s=plan.load.response_timeout_s,
        clock=clock,
        **options,
    )
    client.keep_alive = plan.load.keep_alive
    return client


def host_header(plan: LoadPlan, client: Client) -> str:
    return plan.target.authority if plan.target else host_of(client.address)


def plan_client_class(client: ClientClass) -> type[Client]:
    """Return the class that a plan names. Raises: InputError if there is none."""
    path = ROOT / client.file
    candidate = getattr(module_at(path), client.name, None) if path.name == MODULE else None
    if not (isinstance(candidate, type) and issubclass(candidate, Client)):
        raise InputError(
            str(path),
            expected=f"{client.name}, a subclass of experiments.load.client.Client, in {MODULE}",
            got=repr(candidate),
            hint="Define or import it there.",
        )
    return candidate
