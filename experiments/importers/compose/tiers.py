"""Tiers from services: protocol, port, state, arbiter, and calls between tiers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from core.config_file import ConfigFile
from core.errors import InputError
from core.json_object import JsonObject
from experiments.design.contracts import PROTOCOLS
from experiments.design.fleet import MACHINES_MAX
from experiments.design.roles import find_roles
from experiments.importers.compose.service import Service

KNOWN = Path(__file__).with_name("known.toml")
TIERS_MAX = 10
TIER_NAME_MAX = 20
_URL = re.compile(r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::([0-9]+))?(/[^\s'\"|;&)]*)?")
_BARE_URL = re.compile(r"\b(?:localhost|127\.0\.0\.1)(?::([0-9]+))?(/[^\s'\"|;&)]*)")
_OF_HOSTS = re.compile(r"HOST|SERVER|ADDR|UR[IL]|ENDPOINT|UPSTREAM|BROKER|NODE", re.IGNORECASE)
_TEXT_BYTES_MAX = 200_000  # larger files are not searched for names
_TEXTS_MAX = 500  # files of a context that are searched


@dataclass(frozen=True)
class Tier:
    """A service as a tier of the fleet."""

    name: str
    service: Service
    protocol: str
    port: int
    state: str
    arbiter: bool
    calls: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        return self.service.replicas


@dataclass(frozen=True)
class Answer:
    """The protocol and the port of a service, if the file does not give them."""

    protocol: str
    port: int | None = None


Ask = Callable[[Service], Answer | None]


@cache
def _known_images() -> JsonObject:
    return tomllib.loads(KNOWN.read_text(encoding="utf-8"))


def image_facts(service: Service) -> Mapping[str, Any]:
    """Return the known facts of the service's image, by its name. They are empty for an image that
    is built, and for a service that runs another program than the image's.
    """
    if service.image is None or service.build is not None or service.entrypoint:
        return {}
    name = service.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    facts: Mapping[str, Any] = _known_images()["images"].get(name, {})
    return facts


def ports_of(service: Service) -> tuple[int, ...]:
    """Return all TCP ports on which the service listens by the file, the likeliest first."""
    from_healthcheck = [port for port, _ in urls_of(service)]
    published = [port.target for port in service.published if port.protocol == "tcp"]
    in_build = _find_exposed_ports(service)
    return tuple(dict.fromkeys([*published, *service.exposed, *from_healthcheck, *in_build]))


def urls_of(service: Service) -> list[tuple[int, str]]:
    """Return port and path of each of the service's own URLs that its healthcheck requests."""
    if service.healthcheck is None:
        return []
    command = " ".join(service.healthcheck.command)
    urls = _URL.findall(command) or _BARE_URL.findall(command)
    return [(int(port or 80), path or "/") for port, path in urls if int(port or 80) <= 65535]


def _find_exposed_ports(service: Service) -> list[int]:
    if service.build is None:
        return []
    path = service.build.context / service.build.dockerfile
    text = service.build.inline or (
        path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    )
    lines = re.findall(r"^\s*EXPOSE\s+(.+)$", text, re.MULTILINE | re.IGNORECASE)
    ports = [port.partition("/") for line in lines for port in line.split()]
    return [int(port) for port, _, kind in ports if port.isdigit() and kind in ("", "tcp")]


def tiers_of(
    services: Mapping[str, Service], source: ConfigFile, ask: Ask, left_out: dict[str, str]
) -> dict[str, Tier]:
    """Return the tiers with their calls, by service name. Services that cannot be a tier go into
    `left_out`, each with the reason.

    Raises InputError for too many tiers, for a service of unknown protocol, and for cycles.
    """
    names = _name_tiers(services)
    texts = {name: tuple(_read_texts(service)) for name, service in services.items()}
    tiers: dict[str, Tier] = {}
    for name, service in services.items():
        answer = _find_answer(service, ask, _find_named_ports(service, services, texts))
        if answer is None:
            left_out[name] = "it serves no port, so no tier: x-sparecraft.port names one"
            continue
        facts, hints = image_facts(service), service.hints
        has_volume = any(mount.kind == "volume" and mount.source for mount in service.mounts)
        with_arbiter = facts.get("arbiter", True) if hints.arbiter is None else hints.arbiter
        tiers[name] = Tier(
            names[name],
            service,
            answer.protocol,
            answer.port or 0,
            hints.state or facts.get("state") or ("own" if has_volume else "none"),
            bool(with_arbiter),
        )
    if len(tiers) > TIERS_MAX:
        raise source.error(
            "services",
            expected=f"at most {TIERS_MAX} services that become tiers",
            got=str(len(tiers)),
            hint="Take some out, or give them profiles.",
        )
    calls = _find_calls(tiers, source, texts)
    return {name: replace(tier, calls=tuple(calls[name])) for name, tier in tiers.items()}


def is_recognised(service: Service) -> bool:
    """Tell whether the file, or the name of the image, defines the service's protocol and port."""
    try:
        return _find_answer(service, lambda _: None) is not None
    except InputError:
        return False


def _find_answer(service: Service, ask: Ask, named_ports: Sequence[int] = ()) -> Answer | None:
    """Return protocol and port of a service; None if no file shows that it serves something.

    Parameters: named_ports, the ports that files of other services give together with its name.
    """
    user_answer, facts = ask(service), image_facts(service)
    ports = ports_of(service) or named_ports
    hints = service.hints
    port = hints.port or (user_answer.port if user_answer else None)
    if port is None:
        default_port = facts.get("port")
        port = (
            default_port
            if default_port and (not ports or default_port in ports)
            else next(iter(ports), None)
        )
    protocol = hints.protocol or (
        user_answer.protocol if user_answer and user_answer.protocol else None
    )
    if protocol is None and (not ports or facts.get("port") in (port, None)):
        protocol = facts.get("protocol")
    if protocol is None and port is not None:
        protocol = "http" if urls_of(service) else _known_images()["ports"].get(str(port))
    if port is None and protocol is None:
        return None
    if port is None and protocol is not None:
        port = PROTOCOLS[protocol].default_port
    if protocol is None or port is None:
        missing = "protocol" if protocol is None else "port"
        raise service.source.error(
            *service.key,
            expected=f"a {missing} that can be known",
            got=f"image {service.image or 'built here'}, port {port or 'none'}",
            hint=f"Say --speaks {service.name}=PROTOCOL:PORT, or x-sparecraft.{missing} in the "
            f"file. Protocols: {', '.join(PROTOCOLS)}.",
        )
    return Answer(protocol, port)


def _name_tiers(services: Iterable[str]) -> dict[str, str]:
    """Return a tier name for each service: at most 20 of a-z, 0-9 and hyphens, and no name of the
    fleet's own machines.
    """
    helpers = {name for name, role in find_roles().items() if not role.tier}
    tier_names: dict[str, str] = {}
    for service in services:
        name = re.sub(r"[^a-z0-9]+", "-", service.lower()).strip("-") or "service"
        name = name if name[0].isalpha() else f"s-{name}"
        name = f"{name}-service" if name in helpers else name
        name, count = name[:TIER_NAME_MAX].strip("-"), 1
        base = name
        while name in tier_names.values():
            count += 1
            name = f"{base[: TIER_NAME_MAX - 3].strip('-')}-{count}"
        tier_names[service] = name
    return tier_names


def _find_calls(
    tiers: Mapping[str, Tier], source: ConfigFile, texts: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return for each service the services that it calls. Calls that the Compose file states come
    first, then names in the service's own files. A store that nobody names is called by all HTTP
    services that can reach it.
    """
    calls: dict[str, list[str]] = {name: [] for name in tiers}
    for name, tier in tiers.items():
        for callee in tier.service.hints.calls or ():
            if callee not in tiers or callee == name:
                known = ", ".join(service for service in tiers if service != name)
                raise source.error(
                    *tier.service.key,
                    "x-sparecraft",
                    "calls",
                    expected=f"some of {known}",
                    got=callee,
                )
        calls[name] = list(tier.service.hints.calls or _find_callees(tier.service, tiers))
    _refuse_cycles(calls, source)
    for name, tier in tiers.items():
        if tier.service.hints.calls is None and tier.protocol == "http":
            for callee in _find_mentioned(tier.service, tiers, texts[name]):
                _add_call(calls, name, callee)
    for name, tier in tiers.items():
        if tier.protocol != "http" and not any(name in callees for callees in calls.values()):
            for caller_name, caller in tiers.items():
                fits = caller.protocol == "http" and caller.service.hints.calls is None
                if fits and _share_network(caller.service, tier.service):
                    _add_call(calls, caller_name, name)
    return calls


def _add_call(calls: dict[str, list[str]], caller: str, callee: str) -> None:
    """Add a call, unless it would close a cycle: the direction is unknown then."""
    if (
        caller != callee
        and callee not in calls[caller]
        and caller not in _find_reachable(calls, callee)
    ):
        calls[caller].append(callee)


def _find_reachable(calls: Mapping[str, list[str]], start: str) -> set[str]:
    reachable, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name not in reachable:
            reachable.add(name)
            todo += calls.get(name, [])
    return reachable


def _refuse_cycles(calls: Mapping[str, list[str]], source: ConfigFile) -> None:
    for name, callees in calls.items():
        if any(name in _find_reachable(calls, callee) for callee in callees):
            raise source.error(
                "services",
                name,
                expected="calls (depends_on, links, x-sparecraft.calls) that come to an end",
                got=f"a cycle back to {name}",
                hint="Take one of them out.",
            )


def dependency_cycles(services: Mapping[str, Service]) -> Iterator[InputError]:
    """Yield an error for each cycle of depends_on, at its first service."""
    depends = {name: list(service.depends_on) for name, service in services.items()}
    reported: set[str] = set()
    for name, service in services.items():
        circle = {
            dependency
            for dependency in _find_reachable(depends, name)
            if name in _find_reachable(depends, dependency)
        }
        if name not in reported and any(
            name in _find_reachable(depends, dependency) for dependency in service.depends_on
        ):
            reported |= circle
            yield service.source.error(
                *service.key,
                "depends_on",
                expected="services that do not depend on each other in a circle",
                got=", ".join(sorted(circle)),
                hint="Take one of them out.",
            )


def _share_network(first: Service, second: Service) -> bool:
    return bool(set(first.networks) & set(second.networks))


def _find_callees(service: Service, tiers: Mapping[str, Tier]) -> Iterator[str]:
    """Yield the services that depends_on and links name, if a network leads to them."""
    names = [*service.depends_on, *(link.partition(":")[0] for link in service.links)]
    for callee in dict.fromkeys(names):
        if (
            callee in tiers
            and callee != service.name
            and _share_network(service, tiers[callee].service)
        ):
            yield callee


def names_of(service: Service, caller: Service) -> tuple[str, ...]:
    """Return the names by which `caller` finds the service."""
    shared_networks = set(service.networks) & set(caller.networks)
    aliases = [name for network in sorted(shared_networks) for name in service.networks[network]]
    links = [link.split(":") for link in caller.links]
    link_names = [parts[1] for parts in links if len(parts) == 2 and parts[0] == service.name]
    return tuple(dict.fromkeys([service.name, *service.names, *aliases, *link_names]))


def _find_named_ports(
    service: Service, services: Mapping[str, Service], texts: Mapping[str, Sequence[str]]
) -> list[int]:
    """Return the ports after the service's name in settings and files of other services."""
    ports: list[int] = []
    for caller in services.values():
        if caller.name == service.name or not _share_network(service, caller):
            continue
        names = "|".join(map(re.escape, names_of(service, caller)))
        port = re.compile(rf"(?<![\w.-])(?:{names}):([0-9]{{2,5}})\b")
        for text in texts[caller.name]:
            ports += [int(number) for number in port.findall(text) if int(number) <= 65535]
    return list(dict.fromkeys(ports))


def _find_mentioned(
    service: Service, tiers: Mapping[str, Tier], texts: Sequence[str]
) -> Iterator[str]:
    """Yield the services whose names are used as hosts in the environment, the command or the
    files of `service`.
    """
    hosts = [text for name, text in service.environment.items() if _OF_HOSTS.search(name)]
    for name, tier in tiers.items():
        if name == service.name or not _share_network(service, tier.service):
            continue
        names = "|".join(map(re.escape, names_of(tier.service, service)))
        host = re.compile(rf"(?:^|[/@,=\s]|://)(?:{names})(?:$|[:/,\s])")
        url = re.compile(
            rf"://(?:[^\s/@]*@)?(?:{names})(?=[:/\"'\s;]|$)|(?<![\w./-])(?:{names}):[0-9]{{2,5}}\b"
        )
        if any(host.search(text) for text in hosts) or any(url.search(text) for text in texts):
            yield name


def _read_texts(service: Service) -> Iterator[str]:
    """Yield the service's settings, and the text files of its build context and its mounts."""
    yield from service.environment.values()
    yield from (*(service.command or ()), *(service.entrypoint or ()))
    folders = [service.build.context] if service.build else []
    binds = [
        service.source.path.parent / mount.source
        for mount in service.mounts
        if mount.kind == "bind"
    ]
    count = 0
    for top in [*folders, *binds]:
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in files:
            hidden = any(part in (".git", "node_modules") for part in path.parts)
            if hidden or not path.is_file() or path.stat().st_size > _TEXT_BYTES_MAX:
                continue
            count += 1
            if count > _TEXTS_MAX:
                return
            yield path.read_bytes().decode("utf-8", errors="ignore")


def check_machine_counts(tiers: Iterable[Tier]) -> Iterator[InputError]:
    """Yield an error for each tier without machines, or with too many."""
    for tier in tiers:
        if not 1 <= tier.nodes <= MACHINES_MAX:
            yield tier.service.source.error(
                *tier.service.key,
                "deploy",
                "replicas",
                expected=f"1 to {MACHINES_MAX} machines",
                got=str(tier.nodes),
                hint="Remove the service if it is not needed.",
            )
