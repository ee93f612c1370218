"""A Compose file together with the files that it names: `include`, and `extends` with a file.

The order is Compose's: each file's `include` comes first, then its `extends`, then the file is
merged with the next one. Relative paths begin at the file's own folder; those of an included
project begin at its `project_directory`.
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
from experiments.importers.compose.merging import ComposeFile, Part, merge, to_build, to_part
from experiments.importers.compose.reading import NODES_MAX, read_compose
from experiments.importers.compose.variables import Variables, read_variables

FILES_MAX = 30  # a file counts as often as it is read
DEPTH_MAX = 10  # of services that extend each other, and of files that include each other
RESOURCES = ("services", "networks", "volumes", "secrets", "configs", "models")
_NONE = Part(None, "")
_REMOTE = re.compile(r"^[a-z+]+://|^oci:|^git@|^github\.com/")


@dataclass(frozen=True)
class Project:
    """The merged parts of a project, and the variables that each included service sees."""

    source: ComposeFile
    variables: Mapping[str, Mapping[str, str]]  # by service; other services see the project's
    missing: Mapping[str, str]  # variables that have no value, and the first place of each
    outside: tuple[tuple[str, str], ...]  # files that lie outside of the project, with their place


def read_project(path: Path, overrides: Sequence[Path], values: Mapping[str, str]) -> Project:
    """Return the project of a Compose file with `overrides` merged into it.

    Raises InputError with the place of the error: a missing file, a cycle, an unknown service,
    too many files, or files and services that name each other too deeply.
    """
    files = _Files(path.parent)
    parts = files.load([path, *overrides], _Scope(path.parent, values))
    source = ComposeFile(path, parts.plain(), dict(parts.places()))
    return Project(source, files.variables, files.missing, tuple(files.outside))


@dataclass(frozen=True)
class _Scope:
    """A project, main or included, and the place that includes it."""

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
        parts = Part(None, str(paths[0]))
        for path in paths:
            parts = merge(parts, self.load_file(path, scope))
        return parts

    def load_file(self, path: Path, scope: _Scope) -> Part:
        """Return the parts of a file: its includes joined, its services expanded, its paths
        relative to the project.
        """
        parts = self.read(path, scope.values, scope.place)
        included = [
            self.include(entry, path, scope) for entry in parts.mapping.get("include", _NONE).items
        ]
        parts = parts.without("include")
        if scope.folder != self.project:
            parts = _move_paths(parts, partial(self.to_project_path, scope.folder), is_project=True)
        if scope.includers:
            names = parts.mapping.get("services", _NONE).mapping
            self.variables.update(dict.fromkeys(names, scope.values))
        for project in included:
            parts = _join(parts, project)
        services = _Services(self, path, scope, parts).expand()
        return parts.with_parts({"services": services}) if services.mapping else parts

    def read(self, path: Path, values: Mapping[str, str], place: str) -> Part:
        """Return the parts of one file, without the files that it names."""
        self.count += 1
        if self.count > FILES_MAX:
            raise InputError(
                place,
                expected=f"at most {FILES_MAX} Compose files that name each other",
                got="more",
                hint="Write their content into fewer files.",
            )
        variables = Variables(values)
        parts = to_part(read_compose(path, variables))
        for name, first in variables.missing.items():
            self.missing.setdefault(name, first)
        return parts

    def include(self, entry: Part, path: Path, scope: _Scope) -> Part:
        place = f"{entry.place}: include"
        fields = entry.mapping or {"path": entry}
        paths = [self.file(part, scope.folder, place) for part in fields.get("path", _NONE).items]
        if not paths:
            raise InputError(place, expected="the path of a file", got="none")
        includers = (*scope.includers, path.resolve())
        for file in paths:
            if file.resolve() in includers:
                raise _cycle(place, [includer.name for includer in (*includers, file)])
        if len(includers) > DEPTH_MAX:
            raise _too_deep(place, "files that include each other")
        folder = paths[0].parent
        if (project_directory := fields.get("project_directory")) is not None:
            folder = self.local_path(project_directory, scope.folder, place)
        variables = self.read_env_files(fields.get("env_file"), folder, scope, place)
        return self.load(paths, _Scope(folder, {**variables, **scope.values}, includers, place))

    def read_env_files(
        self, files: Part | None, folder: Path, scope: _Scope, place: str
    ) -> dict[str, str]:
        """Return the variables of an included project; those of the includer take precedence."""
        if files is None:
            default = folder / ".env"
            return read_variables(default, scope.values) if default.is_file() else {}
        variables: dict[str, str] = {}
        for part in files.items:
            path = self.file(part, scope.folder, place)
            variables.update(read_variables(path, {**variables, **scope.values}))
        return variables

    def file(self, part: Part, folder: Path, place: str) -> Path:
        path = self.local_path(part, folder, place)
        if not path.is_file():
            raise InputError(place, expected="an existing file", got=str(part.value))
        return path

    def local_path(self, part: Part, folder: Path, place: str) -> Path:
        """Return the path that a part names. Raises InputError for an address; notes a path
        outside of the project in `outside`.
        """
        if _REMOTE.match(str(part.value)):
            raise InputError(
                place,
                expected="a file or folder of this host",
                got=str(part.value),
                hint="Fetch it, and name the copy.",
            )
        path = Path(os.path.normpath(folder / str(part.value)))
        if not path.resolve().is_relative_to(self.project.resolve()):
            self.outside.append((place, str(part.value)))
        return path

    def to_project_path(self, folder: Path, text: str) -> str:
        """Return a path relative to `folder` as one relative to the project."""
        if os.path.isabs(text) or text.startswith("~"):
            return text
        relative = os.path.relpath(folder / text, self.project)
        return relative if relative.startswith("..") else f"./{relative}"


class _Services:
    """The services of one file, each merged with the services that it extends."""

    def __init__(self, files: _Files, path: Path, scope: _Scope, parts: Part) -> None:
        self.files, self.scope, self.path = files, scope, path.resolve()
        self.files_read = {self.path: (scope.folder, parts)}
        # With the number of services that each one extends.
        self.done: dict[tuple[Path, str], tuple[Part, int]] = {}

    def expand(self) -> Part:
        """Return all services of the file."""
        services = self.files_read[self.path][1].mapping.get("services", _NONE)
        expanded = {name: self.service(self.path, name, ())[0] for name in services.mapping}
        return Part(expanded, services.place)

    def service(
        self, path: Path, name: str, extending: tuple[tuple[Path, str], ...]
    ) -> tuple[Part, int]:
        """Return a service merged with all that it extends, and the number of those."""
        key = (path, name)
        if key not in self.done:
            service = self.files_read[path][1].mapping["services"].mapping[name]
            extends = service.mapping.get("extends")
            self.done[key] = (
                (service, 0)
                if extends is None
                else self.extend(service, extends, (*extending, key))
            )
        return self.done[key]

    def extend(
        self, service: Part, extends: Part, extending: tuple[tuple[Path, str], ...]
    ) -> tuple[Part, int]:
        """Merge `service`, the last of `extending`, into the service that it extends."""
        path, name = extending[-1]
        place = f"{extends.place}: services.{name}.extends"
        fields = extends.mapping or {"service": extends}
        if "file" in fields:
            path = self.read_base_file(fields["file"], self.files_read[path][0], place)
        base = str(fields["service"].value)
        known = self.files_read[path][1].mapping.get("services", _NONE).mapping
        if base not in known:
            raise InputError(
                place,
                expected=f"one of the services {', '.join(known) or '(none)'} of {path.name}",
                got=base,
            )
        chain = (*extending, (path, base))
        if (path, base) in extending:
            raise _cycle(place, [f"{base_name} of {file.name}" for file, base_name in chain])
        if len(extending) > DEPTH_MAX:
            raise _too_deep(place, "services that extend each other")
        merged, count = self.service(path, base, extending)
        if count >= DEPTH_MAX:
            raise _too_deep(place, "services that extend each other")
        merged = merge(merged, service.without("extends"), ("services", name))
        self.files.parts += merged.size()
        if self.files.parts > NODES_MAX:
            raise InputError(
                place,
                expected=f"at most {NODES_MAX:,} values of services that extend others",
                got="more",
                hint="Take some out.",
            )
        return merged, count + 1

    def read_base_file(self, file: Part, folder: Path, place: str) -> Path:
        """Read the file that `extends` names, once, with its paths relative to the project.
        Return its path.
        """
        path = self.files.file(file, folder, place)
        if path.resolve() not in self.files_read:
            parts = self.files.read(path, self.scope.values, place)
            if path.parent != self.files.project:
                convert = partial(self.files.to_project_path, path.parent)
                parts = _move_paths(parts, convert, is_project=False)
            self.files_read[path.resolve()] = (path.parent, parts)
        return path.resolve()


def _join(parts: Part, included: Part) -> Part:
    """Add an included project's resources to `parts`.

    Raises InputError if a name stands for different things in the two.
    """
    resources = dict(parts.mapping)
    for kind in RESOURCES:
        added = included.mapping.get(kind)
        if added is None or not added.mapping:
            continue
        existing = resources.get(kind, added).mapping
        for name, part in added.mapping.items():
            if name in existing and existing[name].plain() != part.plain():
                raise InputError(
                    f"{existing[name].place}: {kind}.{name}",
                    expected="a name that no included file has for something else",
                    got=f"{name}, also in {part.place}",
                    hint="Give one of them another name.",
                )
        resources[kind] = Part({**added.mapping, **existing}, resources.get(kind, added).place)
    return Part(resources, parts.place)


def _move_paths(parts: Part, convert: Callable[[str], str], *, is_project: bool) -> Part:
    """Return `parts` with `convert` applied to each relative path.

    Parameters: is_project, true for a whole project; there, a build without a context means the
    project's folder.
    """

    def move_path(part: Part) -> Part:
        return Part(convert(str(part.value)), part.place)

    def move_service(part: Part) -> Part:
        fields = dict(part.mapping)
        if "build" in fields:
            build = to_build(fields["build"])
            context = build.mapping.get("context", Part(".", build.place) if is_project else None)
            if context is not None and not _REMOTE.match(str(context.value)):
                build = build.with_parts({"context": move_path(context)})
            fields["build"] = build
        if "env_file" in fields:
            files = fields["env_file"].items
            moved = [
                _change_part(file, "path", move_path) if file.mapping else move_path(file)
                for file in files
            ]
            fields["env_file"] = Part(moved, fields["env_file"].place)
        if "volumes" in fields:
            mounts = [_move_mount(mount, move_path, convert) for mount in fields["volumes"].items]
            fields["volumes"] = Part(mounts, fields["volumes"].place)
        return Part(fields, part.place) if fields else part

    def move_volume(part: Part) -> Part:
        return _change_part(
            part, "x-sparecraft", lambda hints: _change_part(hints, "seed", move_path)
        )

    def move_grant(part: Part) -> Part:
        return _change_part(part, "file", move_path)

    resources = dict(parts.mapping)
    kinds = {
        "services": move_service,
        "volumes": move_volume,
        "secrets": move_grant,
        "configs": move_grant,
    }
    for kind, move in kinds.items():
        if kind in resources:
            moved = {name: move(part) for name, part in resources[kind].mapping.items()}
            resources[kind] = Part(moved, resources[kind].place)
    return Part(resources, parts.place)


def _change_part(part: Part, name: str, change: Callable[[Part], Part]) -> Part:
    """Return the mapping `part` with `change` applied to the part `name`, if it has one."""
    return part.with_parts({name: change(part.mapping[name])}) if name in part.mapping else part


def _move_mount(
    part: Part, move_path: Callable[[Part], Part], convert: Callable[[str], str]
) -> Part:
    if part.mapping:
        is_bind = part.mapping["type"].value == "bind" if "type" in part.mapping else False
        return _change_part(part, "source", move_path) if is_bind else part
    source, colon, rest = str(part.value).partition(":")
    return (
        Part(f"{convert(source)}:{rest}", part.place) if colon and source.startswith(".") else part
    )


def _cycle(place: str, names: Sequence[Any]) -> InputError:
    return InputError(
        place,
        expected="files and services that come to an end",
        got=f"a cycle: {' -> '.join(map(str, names))}",
        hint="Take one of them out.",
    )


def _too_deep(place: str, items: str) -> InputError:
    return InputError(
        place,
        expected=f"at most {DEPTH_MAX} {items}",
        got="more",
        hint="Write their content into fewer of them.",
    )
