"""Tiers from services: protocol, port, state, arbiter, and calls between tiers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
_TEXT_BYTES_MAX = 200_000  # a larger file is not looked through for names
_TEXTS_MAX = 500  # files of a context that are


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
        """The number of machines."""
        return self.service.replicas


@dataclass(frozen=True)
class Answer:
    """The protocol and the port of a service, where the file does not say them."""

    protocol: str
    port: int | None = None


Ask = Callable[[Service], Answer | None]


@cache
def _known_images() -> JsonObject:
    return tomllib.loads(KNOWN.read_text(encoding="utf-8"))


def image_facts(service: Service) -> Mapping[str, Any]:
    """Return the facts known of the service's image by its name; nothing for one that is built, or
    that runs another program than its own.
    """
    if service.image is None or service.build is not None or service.entrypoint:
        return {}
    name = service.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    found: Mapping[str, Any] = _known_images()["images"].get(name, {})
    return found


def ports_of(service: Service) -> tuple[int, ...]:
    """Return all TCP ports that the file says it listens on, the likeliest first."""
    from_healthcheck = [port for port, _ in urls_of(service)]
    published = [one.target for one in service.published if one.protocol == "tcp"]
    in_build = _exposed_in(service)
    return tuple(dict.fromkeys([*published, *service.exposed, *from_healthcheck, *in_build]))


def urls_of(service: Service) -> list[tuple[int, str]]:
    """Port and path of each URL of its own that its healthcheck asks."""
    if service.healthcheck is None:
        return []
    words = " ".join(service.healthcheck.words)
    found = _URL.findall(words) or _BARE_URL.findall(words)
    return [(int(port or 80), path or "/") for port, path in found if int(port or 80) <= 65535]


def _exposed_in(service: Service) -> list[int]:
    if service.build is None:
        return []
    path = service.build.context / service.build.dockerfile
    text = service.build.inline or (
        path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    )
    lines = re.findall(r"^\s*EXPOSE\s+(.+)$", text, re.MULTILINE | re.IGNORECASE)
    words = [word.partition("/") for line in lines for word in line.split()]
    return [int(port) for port, _, kind in words if port.isdigit() and kind in ("", "tcp")]


def tiers_of(
    services: Mapping[str, Service], source: ConfigFile, ask: Ask, left_out: dict[str, str]
) -> dict[str, Tier]:
    """Service name to its tier, calls included; services that cannot be one go into `left_out`,
    each with the reason.

    Raises InputError for too many tiers, for a service whose protocol nobody says, and for cycles.
    """
    names = _names(services)
    texts = {name: tuple(_texts(one)) for name, one in services.items()}
    tiers: dict[str, Tier] = {}
    for name, service in services.items():
        found = _answer(service, ask, _named_ports(service, services, texts))
        if found is None:
            left_out[name] = "it serves no port, so no tier: x-sparecraft.port names one"
            continue
        facts, hints = image_facts(service), service.hints
        keeps = any(one.kind == "volume" and one.source for one in service.mounts)
        asked = facts.get("arbiter", True) if hints.arbiter is None else hints.arbiter
        tiers[name] = Tier(
            names[name],
            service,
            found.protocol,
            found.port or 0,
            hints.state or facts.get("state") or ("own" if keeps else "none"),
            bool(asked),
        )
    if len(tiers) > TIERS_MAX:
        raise source.error(
            "services",
            expected=f"at most {TIERS_MAX} services that become tiers",
            got=str(len(tiers)),
            hint="Take some out, or give them profiles.",
        )
    called = _calls(tiers, source, texts)
    return {
        name: Tier(
            tier.name,
            tier.service,
            tier.protocol,
            tier.port,
            tier.state,
            tier.arbiter,
            tuple(called[name]),
        )
        for name, tier in tiers.items()
    }


def is_recognised(service: Service) -> bool:
    """Tell whether the file, or the name of the image, defines the service's protocol and port."""
    try:
        return _answer(service, lambda _: None) is not None
    except InputError:
        return False


def _answer(service: Service, ask: Ask, named: Sequence[int] = ()) -> Answer | None:
    """Protocol and port; None if it serves nothing that the files tell of.

    Parameters: named, ports that other services' files name with it.
    """
    told, facts = ask(service), image_facts(service)
    ports = ports_of(service) or named
    hints = service.hints
    port = hints.port or (told.port if told else None)
    if port is None:
        usual = facts.get("port")
        port = usual if usual and (not ports or usual in ports) else next(iter(ports), None)
    protocol = hints.protocol or (told.protocol if told and told.protocol else None)
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


def _names(services: Iterable[str]) -> dict[str, str]:
    """Tier names: a-z, 0-9 and hyphens, at most 20, none of the fleet's own machines."""
    helpers = {name for name, role in find_roles().items() if not role.tier}
    found: dict[str, str] = {}
    for service in services:
        name = re.sub(r"[^a-z0-9]+", "-", service.lower()).strip("-") or "service"
        name = name if name[0].isalpha() else f"s-{name}"
        name = f"{name}-service" if name in helpers else name
        name, count = name[:TIER_NAME_MAX].strip("-"), 1
        base = name
        while name in found.values():
            count += 1
            name = f"{base[: TIER_NAME_MAX - 3].strip('-')}-{count}"
        found[service] = name
    return found


def _calls(
    tiers: Mapping[str, Tier], source: ConfigFile, texts: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Service to the services that it calls: by what the file says first, then by what its own
    files name, at last by who else can reach a store that nobody names."""
    called: dict[str, list[str]] = {name: [] for name in tiers}
    for name, tier in tiers.items():
        for other in tier.service.hints.calls or ():
            if other not in tiers or other == name:
                known = ", ".join(one for one in tiers if one != name)
                raise source.error(
                    *tier.service.key,
                    "x-sparecraft",
                    "calls",
                    expected=f"some of {known}",
                    got=other,
                )
        called[name] = list(tier.service.hints.calls or _callees(tier.service, tiers))
    _refuse_cycles(called, source)
    for name, tier in tiers.items():
        if tier.service.hints.calls is None and tier.protocol == "http":
            for other in _mentioned(tier.service, tiers, texts[name]):
                _add(called, name, other)
    for name, tier in tiers.items():
        if tier.protocol != "http" and not any(name in others for others in called.values()):
            for other, caller in tiers.items():
                fits = caller.protocol == "http" and caller.service.hints.calls is None
                if fits and _reach(caller.service, tier.service):
                    _add(called, other, name)
    return called


def _add(called: dict[str, list[str]], caller: str, other: str) -> None:
    """A call more, unless it would close a cycle: then neither says who calls whom."""
    if caller != other and other not in called[caller] and caller not in _reached(called, other):
        called[caller].append(other)


def _reached(called: Mapping[str, list[str]], start: str) -> set[str]:
    found, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += called.get(name, [])
    return found


def _refuse_cycles(called: Mapping[str, list[str]], source: ConfigFile) -> None:
    for name, others in called.items():
        if any(name in _reached(called, other) for other in others):
            raise source.error(
                "services",
                name,
                expected="calls (depends_on, links, x-sparecraft.calls) that come to an end",
                got=f"a cycle back to {name}",
                hint="Take one of them out.",
            )


def dependency_cycles(services: Mapping[str, Service]) -> Iterator[InputError]:
    """Cycles of depends_on, at the first service of each."""
    depends = {name: list(one.depends_on) for name, one in services.items()}
    seen: set[str] = set()
    for name, one in services.items():
        circle = {other for other in _reached(depends, name) if name in _reached(depends, other)}
        if name not in seen and any(name in _reached(depends, other) for other in one.depends_on):
            seen |= circle
            yield one.source.error(
                *one.key,
                "depends_on",
                expected="services that do not depend on each other in a circle",
                got=", ".join(sorted(circle)),
                hint="Take one of them out.",
            )


def _reach(one: Service, other: Service) -> bool:
    return bool(set(one.networks) & set(other.networks))


def _callees(service: Service, tiers: Mapping[str, Tier]) -> Iterator[str]:
    """Services that depends_on and links name, or that a network leads to."""
    named = [*service.depends_on, *(link.partition(":")[0] for link in service.links)]
    for other in dict.fromkeys(named):
        if other in tiers and other != service.name and _reach(service, tiers[other].service):
            yield other


def names_of(service: Service, caller: Service) -> tuple[str, ...]:
    """Return the names by which `caller` finds the service."""
    shared = set(service.networks) & set(caller.networks)
    aliases = [name for network in sorted(shared) for name in service.networks[network]]
    links = [link.split(":") for link in caller.links]
    linked = [parts[1] for parts in links if len(parts) == 2 and parts[0] == service.name]
    return tuple(dict.fromkeys([service.name, *service.names, *aliases, *linked]))


def _named_ports(
    service: Service, services: Mapping[str, Service], texts: Mapping[str, Sequence[str]]
) -> list[int]:
    """Ports that stand after the service's name in what other services are told, or made of."""
    found: list[int] = []
    for other in services.values():
        if other.name == service.name or not _reach(service, other):
            continue
        names = "|".join(map(re.escape, names_of(service, other)))
        port = re.compile(rf"(?<![\w.-])(?:{names}):([0-9]{{2,5}})\b")
        for text in texts[other.name]:
            found += [int(one) for one in port.findall(text) if int(one) <= 65535]
    return list(dict.fromkeys(found))


def _mentioned(service: Service, tiers: Mapping[str, Tier], texts: Sequence[str]) -> Iterator[str]:
    """Services whose names stand in its environment, its command or its files, as hosts do."""
    hosts = [text for name, text in service.environment.items() if _OF_HOSTS.search(name)]
    for name, tier in tiers.items():
        if name == service.name or not _reach(service, tier.service):
            continue
        names = "|".join(map(re.escape, names_of(tier.service, service)))
        host = re.compile(rf"(?:^|[/@,=\s]|://)(?:{names})(?:$|[:/,\s])")
        url = re.compile(
            rf"://(?:[^\s/@]*@)?(?:{names})(?=[:/\"'\s;]|$)|(?<![\w./-])(?:{names}):[0-9]{{2,5}}\b"
        )
        if any(host.search(text) for text in hosts) or any(url.search(text) for text in texts):
            yield name


def _texts(service: Service) -> Iterator[str]:
    """Yield the service's settings, and the text files that it is built of or that lie over it."""
    yield from service.environment.values()
    yield from (*(service.command or ()), *(service.entrypoint or ()))
    folders = [service.build.context] if service.build else []
    binds = [
        service.source.path.parent / one.source for one in service.mounts if one.kind == "bind"
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


def machines_allowed(tiers: Iterable[Tier]) -> Iterator[InputError]:
    """Tiers of no machine, or of more than there may be."""
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
