"""`import_compose`: make a design's folder from a Compose file, whole or not at all."""

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
from experiments.importers.compose.honoured import unhonoured
from experiments.importers.compose.roles import write_role
from experiments.importers.compose.service import Service, read_services
from experiments.importers.compose.tiers import (
    Ask,
    Tier,
    dependency_cycles,
    machines_allowed,
    tiers_of,
)
from experiments.importers.compose.variables import read_variables
from experiments.importers.compose.writing import (
    STORES,
    write_experiment,
    write_fleet,
    write_readme,
)

ASKABLE = ("http", *STORES)  # what a first workload can be made for
NAMES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
OVERRIDES = tuple(
    f"{name}.override.{ending}"
    for name in ("compose", "docker-compose")
    for ending in ("yml", "yaml")
)


@dataclass(frozen=True)
class Imported:
    """A design that was made: its tiers, and each part of the file that has no effect in it."""

    folder: Path
    tiers: tuple[Tier, ...]
    entries: tuple[str, ...]
    unhonoured: tuple[tuple[str, str], ...]

    def called_by(self, tier: Tier) -> tuple[str, ...]:
        """Return the names of the tiers that it calls."""
        names = {one.service.name: one.name for one in self.tiers}
        return tuple(names[service] for service in tier.calls)

    def to_json(self) -> dict[str, object]:
        """Return the same for a program."""
        return {
            "design": str(self.folder),
            "tiers": {
                one.name: {
                    "service": one.service.name,
                    "protocol": one.protocol,
                    "port": one.port,
                    "state": one.state,
                    "nodes": one.nodes,
                    "arbiter": one.arbiter,
                    "calls": list(self.called_by(one)),
                }
                for one in self.tiers
            },
            "entries": list(self.entries),
            "unhonoured": [{"place": place, "why": why} for place, why in self.unhonoured],
        }


class Notes:
    """Parts without effect, by their place in the file."""

    def __init__(self, source: ConfigFile) -> None:
        self._source = source
        self._found: dict[tuple[str, str], int] = {}

    def add(self, key: Key, why: str) -> None:
        """One line more; the same line once."""
        self.add_at(self._source.place(*key), why)

    def add_at(self, place: str, why: str) -> None:
        """The same for a place that is known."""
        self._found.setdefault((place, why), len(self._found))

    def all(self) -> tuple[tuple[str, str], ...]:
        """Place and reason, in the order of the files' lines; the file itself comes first."""

        def line(place: str) -> tuple[bool, str, int]:
            found = re.match(r"(.+?):([0-9]+)(?::|$)", place)
            path, number = (found[1], int(found[2])) if found else (place, 0)
            return path != str(self._source.path), path, number

        return tuple(sorted(self._found, key=lambda one: (line(one[0]), self._found[one])))


def import_compose(
    file: Path,
    to: Path,
    name: str,
    ask: Ask,
    environment: Mapping[str, str] | None = None,
    profiles: Sequence[str] = (),
    env_file: Path | None = None,
) -> Imported:
    """Makes the design `to`, called `name`, of a Compose file or of the one in a folder.

    Parameters: ask gives protocol and port of a service where somebody says them; environment, as
    the shell's; profiles to take in; env_file in place of `.env`.
    Raises InputError with the place in the file; then nothing was made.
    """
    path, overrides = _files_of(file)
    values = dict(os.environ if environment is None else environment)
    dotenv = env_file or path.parent / ".env"
    if env_file is not None or dotenv.is_file():
        values = {**read_variables(dotenv, values), **values}
    whole = read_project(path, overrides, values)
    source = whole.source
    services = read_services(source, path.parent, values, whole.variables)
    notes = Notes(source)
    for variable, first in whole.missing.items():
        notes.add((), f"the variable {variable} is not set: it is empty (first at {first})")
    for place, name in whole.outside:
        notes.add_at(place, f"{name} is read, though it lies outside of the project's folder")
    raise_all(
        [*dependency_cycles(services), *_sources_missing(services), *_port_conflicts(services)]
    )
    chosen = _in_profiles(services, profiles, notes)
    left_out: dict[str, str] = {}
    tiers = tiers_of(chosen, source, ask, left_out)
    for service, why in left_out.items():
        notes.add(("services", service), f"{service} is left out: {why}")
    raise_all(list(machines_allowed(tiers.values())))
    for key, why in unhonoured(source, {name: chosen[name] for name in tiers}):
        notes.add(key, why)
    entries = _entries(tiers, source)
    if to.exists():
        raise InputError(
            str(to),
            expected="a folder that does not exist yet",
            got="one that does",
            hint="Give another name, or remove it.",
        )
    with tempfile.TemporaryDirectory(prefix="sparecraft-") as made:
        folder = Path(made) / "design"
        (folder / "roles").mkdir(parents=True)
        for tier in tiers.values():
            write_role(folder, tier, tiers, source, notes.add, values)
        write_fleet(folder, name, tiers, entries, notes.add)
        write_experiment(folder, tiers, entries, notes.add)
        told = notes.all()
        write_readme(folder, name, path, tiers, told)
        _move(folder, to)
    return Imported(to, tuple(tiers.values()), tuple(one.name for one in entries), told)


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


def _files_of(file: Path) -> tuple[Path, list[Path]]:
    """Return the Compose file and, of a folder, the override that Compose reads with it."""
    if not file.is_dir():
        return file, []
    found = next((file / name for name in NAMES if (file / name).is_file()), None)
    if found is None:
        raise InputError(
            str(file),
            expected=f"a Compose file, or a folder with {' or '.join(NAMES)}",
            got="a folder with none of them",
            hint="Give the file.",
        )
    overrides = (file / name for name in OVERRIDES if (file / name).is_file())
    return found, [*islice(overrides, 1)]


def _sources_missing(services: Mapping[str, Service]) -> list[InputError]:
    """Services without an image, a build context or its Dockerfile."""
    found = []
    for one in services.values():
        build = one.build
        if build is None:
            if not one.image:
                found.append(
                    one.source.error(
                        *one.key, expected="an image or a build", got="neither", hint="Add one."
                    )
                )
        elif not build.context.is_dir():
            found.append(
                one.source.error(*build.key, expected="an existing folder", got=str(build.context))
            )
        elif build.inline is None and not (build.context / build.dockerfile).is_file():
            found.append(
                one.source.error(
                    *build.key,
                    expected=f"the file {build.dockerfile} in the build context",
                    got=f"none in {build.context}",
                )
            )
    return found


def _port_conflicts(services: Mapping[str, Service]) -> list[InputError]:
    """Ports of the host that two services want, or one twice."""
    takers: dict[tuple[str, str], str] = {}
    found = []
    for service in services.values():
        if service.profiles:
            continue
        for one in service.published:
            wanted = (one.host.lstrip("0.").lstrip(":") or one.host, one.protocol)
            if not one.host.rpartition(":")[2]:
                continue
            other = takers.setdefault(wanted, service.name)
            if other != service.name:
                found.append(
                    service.source.error(
                        *one.key,
                        expected="a port of the host that no other service has",
                        got=f"{one.host.lstrip(':')}, which {other} has",
                        hint="Give it another, or none.",
                    )
                )
    return found


def _in_profiles(
    services: Mapping[str, Service], profiles: Sequence[str], notes: Notes
) -> dict[str, Service]:
    chosen = {}
    for name, one in services.items():
        if one.profiles and not set(one.profiles) & {*profiles}:
            why = f"{name} is left out: its profile {' or '.join(one.profiles)} was not asked for"
            notes.add((*one.key, "profiles"), why)
        else:
            chosen[name] = one
    return chosen


def _entries(tiers: Mapping[str, Tier], source: ConfigFile) -> list[Tier]:
    """Return the tiers that nobody calls, those that load can ask first.

    Raises InputError if it can ask none.
    """
    called = {other for tier in tiers.values() for other in tier.calls}
    free = [tier for name, tier in tiers.items() if name not in called]
    shown = {tier.name: bool(tier.service.published) for tier in free}
    protocols = {name: at for at, name in enumerate(ASKABLE)}
    ranked = sorted(free, key=lambda tier: (protocols.get(tier.protocol, 9), not shown[tier.name]))
    if not any(tier.protocol in ASKABLE for tier in ranked):
        raise source.error(
            "services",
            expected=f"a service that nobody calls, and that speaks {', '.join(ASKABLE)}",
            got=", ".join(f"{tier.service.name} ({tier.protocol})" for tier in ranked) or "none",
            hint="Import it with the service that calls it, or say x-sparecraft.protocol.",
        )
    return ranked
