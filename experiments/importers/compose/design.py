"""`import_compose`: make a design's folder from a Compose file, completely or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from core.config_file import ConfigFile, Key, raise_all
from core.errors import InputError
from experiments.importers.compose.files import read_project
from experiments.importers.compose.honoured import find_unhonoured
from experiments.importers.compose.roles import write_role
from experiments.importers.compose.service import Service, read_services
from experiments.importers.compose.tiers import (
    Ask,
    Tier,
    check_machine_counts,
    dependency_cycles,
    tiers_of,
)
from experiments.importers.compose.variables import read_variables
from experiments.importers.compose.writing import (
    STORES,
    write_experiment,
    write_fleet,
    write_readme,
)

ASKABLE = ("http", *STORES)  # the protocols of a first workload
NAMES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
OVERRIDES = tuple(
    f"{name}.override.{ending}"
    for name in ("compose", "docker-compose")
    for ending in ("yml", "yaml")
)


@dataclass(frozen=True)
class Imported:
    """An imported design: its tiers, and each part of the file that has no effect in it."""

    folder: Path
    tiers: tuple[Tier, ...]
    entries: tuple[str, ...]
    unhonoured: tuple[tuple[str, str], ...]

    def callees(self, tier: Tier) -> tuple[str, ...]:
        """Return the names of the tiers that `tier` calls."""
        names = {tier.service.name: tier.name for tier in self.tiers}
        return tuple(names[service] for service in tier.calls)

    def to_json(self) -> dict[str, object]:
        return {
            "design": str(self.folder),
            "tiers": {
                tier.name: {
                    "service": tier.service.name,
                    "protocol": tier.protocol,
                    "port": tier.port,
                    "state": tier.state,
                    "nodes": tier.nodes,
                    "arbiter": tier.arbiter,
                    "calls": list(self.callees(tier)),
                }
                for tier in self.tiers
            },
            "entries": list(self.entries),
            "unhonoured": [{"place": place, "why": why} for place, why in self.unhonoured],
        }


class Notes:
    """Parts without effect, by their place in the file."""

    def __init__(self, source: ConfigFile) -> None:
        self._source = source
        self._order: dict[tuple[str, str], int] = {}

    def add(self, key: Key, why: str) -> None:
        """Add a note at a key; a repeated note counts once."""
        self.add_at(self._source.place(*key), why)

    def add_at(self, place: str, why: str) -> None:
        """Add a note at a place that is already a text."""
        self._order.setdefault((place, why), len(self._order))

    def all(self) -> tuple[tuple[str, str], ...]:
        """Return places and reasons in the order of the files' lines; the main file comes first."""

        def position(place: str) -> tuple[bool, str, int]:
            match = re.match(r"(.+?):([0-9]+)(?::|$)", place)
            path, number = (match[1], int(match[2])) if match else (place, 0)
            return path != str(self._source.path), path, number

        return tuple(sorted(self._order, key=lambda note: (position(note[0]), self._order[note])))


def import_compose(
    file: Path,
    to: Path,
    name: str,
    ask: Ask,
    environment: Mapping[str, str] | None = None,
    profiles: Sequence[str] = (),
    env_file: Path | None = None,
) -> Imported:
    """Make the design `to`, called `name`, from a Compose file or from the one in a folder.

    Parameters: ask returns protocol and port of a service if the user gives them; environment, by
    default that of the process; profiles to include; env_file, read instead of `.env`.
    Raises InputError with the place in the file; then no design is made.
    """
    path, overrides = _find_files(file)
    values = dict(os.environ if environment is None else environment)
    dotenv = env_file or path.parent / ".env"
    if env_file is not None or dotenv.is_file():
        values = {**read_variables(dotenv, values), **values}
    project = read_project(path, overrides, values)
    source = project.source
    services = read_services(source, path.parent, values, project.variables)
    notes = Notes(source)
    for variable, first_place in project.missing.items():
        notes.add((), f"the variable {variable} is not set: it is empty (first at {first_place})")
    for place, outside in project.outside:
        notes.add_at(place, f"{outside} is read, though it lies outside of the project's folder")
    raise_all([*dependency_cycles(services), *_check_sources(services), *_port_conflicts(services)])
    chosen = _select_profiles(services, profiles, notes)
    left_out: dict[str, str] = {}
    tiers = tiers_of(chosen, source, ask, left_out)
    for service, reason in left_out.items():
        notes.add(("services", service), f"{service} is left out: {reason}")
    raise_all(list(check_machine_counts(tiers.values())))
    for key, reason in find_unhonoured(source, {name: chosen[name] for name in tiers}):
        notes.add(key, reason)
    entries = _find_entries(tiers, source)
    if to.exists():
        raise InputError(
            str(to),
            expected="a folder that does not exist yet",
            got="one that does",
            hint="Give another name, or remove it.",
        )
    with tempfile.TemporaryDirectory(prefix="sparecraft-") as temporary:
        folder = Path(temporary) / "design"
        (folder / "roles").mkdir(parents=True)
        for tier in tiers.values():
            write_role(folder, tier, tiers, source, notes.add, values)
        write_fleet(folder, name, tiers, entries, notes.add)
        write_experiment(folder, tiers, entries, notes.add)
        unhonoured_parts = notes.all()
        write_readme(folder, name, path, tiers, unhonoured_parts)
        _move(folder, to)
    return Imported(
        to, tuple(tiers.values()), tuple(tier.name for tier in entries), unhonoured_parts
    )


def _move(folder: Path, to: Path) -> None:
    try:
        shutil.move(folder, to)
    except OSError as error:
        raise InputError(
            str(to),
            expected="a folder that can be made",
            got=str(error.strerror or error),
            hint="Give another place.",
        ) from error


def _find_files(file: Path) -> tuple[Path, list[Path]]:
    """Return the Compose file and, for a folder, the override that Compose reads with it."""
    if not file.is_dir():
        return file, []
    compose_file = next((file / name for name in NAMES if (file / name).is_file()), None)
    if compose_file is None:
        raise InputError(
            str(file),
            expected=f"a Compose file, or a folder with {' or '.join(NAMES)}",
            got="a folder with none of them",
            hint="Give the file.",
        )
    overrides = (file / name for name in OVERRIDES if (file / name).is_file())
    return compose_file, [*islice(overrides, 1)]


def _check_sources(services: Mapping[str, Service]) -> list[InputError]:
    """Return an error for each service without an image, a build context or its Dockerfile."""
    errors = []
    for service in services.values():
        build = service.build
        if build is None:
            if not service.image:
                errors.append(
                    service.source.error(
                        *service.key, expected="an image or a build", got="neither", hint="Add one."
                    )
                )
        elif not build.context.is_dir():
            errors.append(
                service.source.error(
                    *build.key, expected="an existing folder", got=str(build.context)
                )
            )
        elif build.inline is None and not (build.context / build.dockerfile).is_file():
            errors.append(
                service.source.error(
                    *build.key,
                    expected=f"the file {build.dockerfile} in the build context",
                    got=f"none in {build.context}",
                )
            )
    return errors


def _port_conflicts(services: Mapping[str, Service]) -> list[InputError]:
    """Return an error for each port of the host that two services want."""
    takers: dict[tuple[str, str], str] = {}
    errors = []
    for service in services.values():
        if service.profiles:
            continue
        for port in service.published:
            host_port = (port.host.lstrip("0.").lstrip(":") or port.host, port.protocol)
            if not port.host.rpartition(":")[2]:
                continue
            taker = takers.setdefault(host_port, service.name)
            if taker != service.name:
                errors.append(
                    service.source.error(
                        *port.key,
                        expected="a port of the host that no other service has",
                        got=f"{port.host.lstrip(':')}, which {taker} has",
                        hint="Give it another, or none.",
                    )
                )
    return errors


def _select_profiles(
    services: Mapping[str, Service], profiles: Sequence[str], notes: Notes
) -> dict[str, Service]:
    chosen = {}
    for name, service in services.items():
        if service.profiles and not set(service.profiles) & {*profiles}:
            why = (
                f"{name} is left out: its profile {' or '.join(service.profiles)} was not asked for"
            )
            notes.add((*service.key, "profiles"), why)
        else:
            chosen[name] = service
    return chosen


def _find_entries(tiers: Mapping[str, Tier], source: ConfigFile) -> list[Tier]:
    """Return the tiers that nobody calls; those that load can ask come first.

    Raises InputError if load can ask none of them.
    """
    called = {callee for tier in tiers.values() for callee in tier.calls}
    free = [tier for name, tier in tiers.items() if name not in called]
    is_published = {tier.name: bool(tier.service.published) for tier in free}
    protocols = {name: rank for rank, name in enumerate(ASKABLE)}
    ranked = sorted(
        free, key=lambda tier: (protocols.get(tier.protocol, 9), not is_published[tier.name])
    )
    if not any(tier.protocol in ASKABLE for tier in ranked):
        raise source.error(
            "services",
            expected=f"a service that nobody calls, and that speaks {', '.join(ASKABLE)}",
            got=", ".join(f"{tier.service.name} ({tier.protocol})" for tier in ranked) or "none",
            hint="Import it with the service that calls it, or say x-sparecraft.protocol.",
        )
    return ranked
