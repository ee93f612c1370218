"""A Compose file together with the files that it names: `include`, and `extends` with a file.

As in Compose: of each file first `include`, then `extends`, then it is merged with the next;
relative paths are those of the file's own folder, and of an included project's `project_directory`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from core.errors import InputError
from experiments.importers.compose.merging import ComposeFile, Part, as_build, merged, part_of
from experiments.importers.compose.reading import NODES_MAX, read_compose
from experiments.importers.compose.variables import Variables, read_variables

FILES_MAX = 30  # a file counts as often as it is read
DEPTH_MAX = 10  # of services that extend each other, and of files that include each other
RESOURCES = ("services", "networks", "volumes", "secrets", "configs", "models")
_NONE = Part(None, "")
_REMOTE = re.compile(r"^[a-z+]+://|^oci:|^git@|^github\.com/")


@dataclass(frozen=True)
class Project:
    """All parts of a project in one, and the variables that each included service sees."""

    source: ComposeFile
    variables: Mapping[str, Mapping[str, str]]  # by service; those not in it see the project's
    missing: Mapping[str, str]  # variables that have no value, and the first place of each
    outside: tuple[tuple[str, str], ...]  # files that lie outside of the project, with their place


def read_project(path: Path, overrides: Sequence[Path], values: Mapping[str, str]) -> Project:
    """Return the project of a Compose file, `overrides` merged into it.

    Raises InputError with the place of what is wrong: a file that is not there, a cycle, a service
    that nobody has, more files or deeper than the bounds.
    """
    files = _Files(path.parent)
    whole = files.load([path, *overrides], _Scope(path.parent, values))
    found = ComposeFile(path, whole.plain(), dict(whole.places()))
    return Project(found, files.variables, files.missing, tuple(files.outside))


@dataclass(frozen=True)
class _Scope:
    """A project, the main one or one that is included, and the place that includes it."""

    folder: Path
    values: Mapping[str, str]
    includers: tuple[Path, ...] = ()
    place: str = ""


@dataclass
class _Files:
    """Reads files, and counts them."""

    project: Path
    variables: dict[str, Mapping[str, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    outside: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0
    parts: int = 0

    def load(self, paths: Sequence[Path], scope: _Scope) -> Part:
        """Return the files of one project, merged in their order."""
        whole = Part(None, str(paths[0]))
        for path in paths:
            whole = merged(whole, self.one(path, scope))
        return whole

    def one(self, path: Path, scope: _Scope) -> Part:
        """Return a file with what it includes, its services written out, its paths from the
        project.
        """
        own = self.read(path, scope.values, scope.place)
        included = [self.include(one, path, scope) for one in own.named.get("include", _NONE).items]
        own = own.without("include")
        if scope.folder != self.project:
            own = _moved(own, partial(self.within, scope.folder), is_project=True)
        if scope.includers:
            services = own.named.get("services", _NONE).named
            self.variables.update(dict.fromkeys(services, scope.values))
        for other in included:
            own = _joined(own, other)
        written = _Services(self, path, scope, own).written_out()
        return own.with_named({"services": written}) if written.named else own

    def read(self, path: Path, values: Mapping[str, str], place: str) -> Part:
        """One file's own parts."""
        self.count += 1
        if self.count > FILES_MAX:
            raise InputError(
                place,
                expected=f"at most {FILES_MAX} Compose files that name each other",
                got="more",
                hint="Write their content into fewer files.",
            )
        variables = Variables(values)
        found = part_of(read_compose(path, variables))
        for name, first in variables.missing.items():
            self.missing.setdefault(name, first)
        return found

    def include(self, told: Part, path: Path, scope: _Scope) -> Part:
        """Return the parts of one entry of `include`."""
        place = f"{told.place}: include"
        one = told.named or {"path": told}
        paths = [self.file(part, scope.folder, place) for part in one.get("path", _NONE).items]
        if not paths:
            raise InputError(place, expected="the path of a file", got="none")
        includers = (*scope.includers, path.resolve())
        for other in paths:
            if other.resolve() in includers:
                raise _cycle(place, [one.name for one in (*includers, other)])
        if len(includers) > DEPTH_MAX:
            raise _too_deep(place, "files that include each other")
        folder = paths[0].parent
        if (asked := one.get("project_directory")) is not None:
            folder = self.local(asked, scope.folder, place)
        variables = self.env_files(one.get("env_file"), folder, scope, place)
        return self.load(paths, _Scope(folder, {**variables, **scope.values}, includers, place))

    def env_files(
        self, told: Part | None, folder: Path, scope: _Scope, place: str
    ) -> dict[str, str]:
        """Variables of an included project; the includer's own win over them."""
        if told is None:
            usual = folder / ".env"
            return read_variables(usual, scope.values) if usual.is_file() else {}
        found: dict[str, str] = {}
        for part in told.items:
            path = self.file(part, scope.folder, place)
            found.update(read_variables(path, {**found, **scope.values}))
        return found

    def file(self, told: Part, folder: Path, place: str) -> Path:
        """Return the file that a part names, from `folder`."""
        path = self.local(told, folder, place)
        if not path.is_file():
            raise InputError(place, expected="an existing file", got=str(told.value))
        return path

    def local(self, told: Part, folder: Path, place: str) -> Path:
        """Return a path that is no address; one outside of the project is told."""
        if _REMOTE.match(str(told.value)):
            raise InputError(
                place,
                expected="a file or folder of this host",
                got=str(told.value),
                hint="Fetch it, and name the copy.",
            )
        path = Path(os.path.normpath(folder / str(told.value)))
        if not path.resolve().is_relative_to(self.project.resolve()):
            self.outside.append((place, str(told.value)))
        return path

    def within(self, folder: Path, text: str) -> str:
        """Return a path of `folder` as one of the project."""
        if os.path.isabs(text) or text.startswith("~"):
            return text
        found = os.path.relpath(folder / text, self.project)
        return found if found.startswith("..") else f"./{found}"


class _Services:
    """The services of one file; those that extend others get their parts."""

    def __init__(self, files: _Files, path: Path, scope: _Scope, own: Part) -> None:
        self.files, self.scope, self.path = files, scope, path.resolve()
        self.read = {self.path: (scope.folder, own)}
        self.done: dict[tuple[Path, str], tuple[Part, int]] = {}  # with the number it builds on

    def written_out(self) -> Part:
        """Return all services of the file."""
        services = self.read[self.path][1].named.get("services", _NONE)
        found = {name: self.service(self.path, name, ())[0] for name in services.named}
        return Part(found, services.place)

    def service(
        self, path: Path, name: str, extending: tuple[tuple[Path, str], ...]
    ) -> tuple[Part, int]:
        """One service of a file, with all that it extends, and how many it extends."""
        one = (path, name)
        if one not in self.done:
            own = self.read[path][1].named["services"].named[name]
            told = own.named.get("extends")
            self.done[one] = (
                (own, 0) if told is None else self.extended(own, told, (*extending, one))
            )
        return self.done[one]

    def extended(
        self, own: Part, told: Part, extending: tuple[tuple[Path, str], ...]
    ) -> tuple[Part, int]:
        """`own` merged into the service that it extends, the last of `extending`."""
        path, name = extending[-1]
        place = f"{told.place}: services.{name}.extends"
        wanted = told.named or {"service": told}
        if "file" in wanted:
            path = self.other_file(wanted["file"], self.read[path][0], place)
        base = str(wanted["service"].value)
        known = self.read[path][1].named.get("services", _NONE).named
        if base not in known:
            raise InputError(
                place,
                expected=f"one of the services {', '.join(known) or '(none)'} of {path.name}",
                got=base,
            )
        chain = (*extending, (path, base))
        if (path, base) in extending:
            raise _cycle(place, [f"{service} of {one.name}" for one, service in chain])
        if len(extending) > DEPTH_MAX:
            raise _too_deep(place, "services that extend each other")
        whole, count = self.service(path, base, extending)
        if count >= DEPTH_MAX:
            raise _too_deep(place, "services that extend each other")
        whole = merged(whole, own.without("extends"), ("services", name))
        self.files.parts += whole.size()
        if self.files.parts > NODES_MAX:
            raise InputError(
                place,
                expected=f"at most {NODES_MAX:,} values of services that extend others",
                got="more",
                hint="Take some out.",
            )
        return whole, count + 1

    def other_file(self, told: Part, folder: Path, place: str) -> Path:
        """Return the file that `extends` names, read once, its paths made those of the project."""
        path = self.files.file(told, folder, place)
        if path.resolve() not in self.read:
            part = self.files.read(path, self.scope.values, place)
            if path.parent != self.files.project:
                to = partial(self.files.within, path.parent)
                part = _moved(part, to, is_project=False)
            self.read[path.resolve()] = (path.parent, part)
        return path.resolve()


def _joined(own: Part, other: Part) -> Part:
    """Return an included project's resources beside one's own. A name twice has to be the same
    twice.
    """
    found = dict(own.named)
    for kind in RESOURCES:
        theirs = other.named.get(kind)
        if theirs is None or not theirs.named:
            continue
        mine = found.get(kind, theirs).named
        for name, one in theirs.named.items():
            if name in mine and mine[name].plain() != one.plain():
                raise InputError(
                    f"{mine[name].place}: {kind}.{name}",
                    expected="a name that no included file has for something else",
                    got=f"{name}, also in {one.place}",
                    hint="Give one of them another name.",
                )
        found[kind] = Part({**theirs.named, **mine}, found.get(kind, theirs).place)
    return Part(found, own.place)


def _moved(whole: Part, to: Callable[[str], str], *, is_project: bool) -> Part:
    """Return the same with each relative path as `to` has it.

    Parameters: is_project, true for a whole project, of which a build without a context means the
    folder.
    """

    def path(one: Part) -> Part:
        return Part(to(str(one.value)), one.place)

    def service(one: Part) -> Part:
        told = dict(one.named)
        if "build" in told:
            build = as_build(told["build"])
            context = build.named.get("context", Part(".", build.place) if is_project else None)
            if context is not None and not _REMOTE.match(str(context.value)):
                build = build.with_named({"context": path(context)})
            told["build"] = build
        if "env_file" in told:
            files = told["env_file"].items
            moved = [_at(file, "path", path) if file.named else path(file) for file in files]
            told["env_file"] = Part(moved, told["env_file"].place)
        if "volumes" in told:
            mounts = [_mount(mount, path, to) for mount in told["volumes"].items]
            told["volumes"] = Part(mounts, told["volumes"].place)
        return Part(told, one.place) if told else one

    def volume(one: Part) -> Part:
        return _at(one, "x-sparecraft", lambda hints: _at(hints, "seed", path))

    def granted(one: Part) -> Part:
        return _at(one, "file", path)

    found = dict(whole.named)
    kinds = {"services": service, "volumes": volume, "secrets": granted, "configs": granted}
    for kind, move in kinds.items():
        if kind in found:
            parts = {name: move(one) for name, one in found[kind].named.items()}
            found[kind] = Part(parts, found[kind].place)
    return Part(found, whole.place)


def _at(one: Part, name: str, change: Callable[[Part], Part]) -> Part:
    """Return the same mapping with one of its parts changed, if it has it."""
    return one.with_named({name: change(one.named[name])}) if name in one.named else one


def _mount(one: Part, path: Callable[[Part], Part], to: Callable[[str], str]) -> Part:
    if one.named:
        is_bind = one.named["type"].value == "bind" if "type" in one.named else False
        return _at(one, "source", path) if is_bind else one
    source, colon, rest = str(one.value).partition(":")
    return Part(f"{to(source)}:{rest}", one.place) if colon and source.startswith(".") else one


def _cycle(place: str, names: Sequence[Any]) -> InputError:
    return InputError(
        place,
        expected="files and services that come to an end",
        got=f"a cycle: {' -> '.join(map(str, names))}",
        hint="Take one of them out.",
    )


def _too_deep(place: str, what: str) -> InputError:
    return InputError(
        place,
        expected=f"at most {DEPTH_MAX} {what}",
        got="more",
        hint="Write their content into fewer of them.",
    )
