"""Parts of Compose files, each with the place where it is written, merged by Compose's rules.

The rules are those of the specification's chapter on merging: keys of mappings are merged, items of
lists are added, and a single value replaces the other. The tables below hold the exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.config_file import ConfigFile, Key
from experiments.importers.compose.service import STARTED


@dataclass(frozen=True)
class Part:
    """A value, a list of parts or a mapping of names to parts, and its `FILE:LINE`."""

    value: Any
    place: str

    @property
    def mapping(self) -> dict[str, Part]:
        """The parts of a mapping; empty for any other value."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Part]:
        """The parts of a list; a single value alone; empty for None."""
        if self.value is None:
            return []
        return self.value if isinstance(self.value, list) else [self]

    def with_parts(self, parts: Mapping[str, Part]) -> Part:
        return Part({**self.mapping, **parts}, self.place)

    def without(self, name: str) -> Part:
        return Part({key: part for key, part in self.mapping.items() if key != name}, self.place)

    def plain(self) -> Any:
        """Return the values without their places."""
        if isinstance(self.value, dict):
            return {name: part.plain() for name, part in self.value.items()}
        if isinstance(self.value, list):
            return [part.plain() for part in self.value]
        return self.value

    def places(self, key: Key = ()) -> Iterator[tuple[Key, str]]:
        """Yield each key with its place."""
        yield key, self.place
        for name, part in self.mapping.items():
            yield from part.places((*key, name))
        for index, part in enumerate(self.value if isinstance(self.value, list) else ()):
            yield from part.places((*key, index))

    def size(self) -> int:
        """Return the number of parts in it, itself included."""
        return sum(1 for _ in self.places())


class ComposeFile(ConfigFile):
    """The values of a Compose file and of the files that it names, each with its file and line."""

    def __init__(
        self, path: Path, values: dict[str, Any], places: Mapping[Key, str], below: Key = ()
    ) -> None:
        super().__init__(path, values, dict, below)
        self._places = places

    def part(self, values: dict[str, Any], *key: str | int) -> ComposeFile:
        return ComposeFile(self.path, values, self._places, (*self._below, *key))

    def place(self, *key: str | int) -> str:
        key = (*self._below, *key)
        known_keys = (
            key[:length] for length in range(len(key), 0, -1) if key[:length] in self._places
        )
        known_key = next(known_keys, None)
        if known_key is None:
            return super().place(*key[len(self._below) :])
        return f"{self._places[known_key]}: {'.'.join(map(str, key))}"


def to_part(source: ConfigFile) -> Part:
    """Return the values of one file as parts."""

    def convert(value: Any, key: Key) -> Part:
        place = source.place(*key)
        if key:
            place = place.removesuffix(f": {'.'.join(map(str, key))}")
        if isinstance(value, dict):
            return Part({name: convert(item, (*key, name)) for name, item in value.items()}, place)
        if isinstance(value, list):
            return Part([convert(item, (*key, index)) for index, item in enumerate(value)], place)
        return Part(value, place)

    return convert(source.values, ())


_REPLACED: set[Key] = {("command",), ("entrypoint",), ("healthcheck", "test")}
_PAIRS: set[Key] = {
    ("annotations",), ("environment",), ("labels",), ("sysctls",), ("build", "args"),
    ("build", "labels"), ("deploy", "labels"),
}  # fmt: skip
_TARGETS: set[Key] = {("volumes",), ("devices",)}  # an item replaces another with the same target
_GRANTS: set[Key] = {("configs",), ("secrets",)}


def merge(base: Part, over: Part, key: Key = ()) -> Part:
    """Merge `over` into `base`; both are at `key` of their files."""
    of_service = key[2:] if key[:1] == ("services",) else None
    if over.value is None:
        return base
    if base.value is None or of_service in _REPLACED:
        return over
    form = _FORMS.get(of_service) if of_service is not None else None
    if form is not None:
        base, over = form(base), form(over)
    if of_service in _PAIRS:  # a name without a value comes from the environment, and wins
        return base.with_parts(over.mapping)
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        return _merge_mappings(base, over, key)
    if isinstance(base.value, list) and isinstance(over.value, list):
        return _merge_lists(base, over, of_service)
    return over


def _merge_mappings(base: Part, over: Part, key: Key) -> Part:
    parts = dict(base.mapping)
    for name, part in over.mapping.items():
        parts[name] = merge(parts[name], part, (*key, name)) if name in parts else part
    return Part(parts, over.place)


def _merge_lists(base: Part, over: Part, of_service: Key | None) -> Part:
    """Return the items of both lists, each once; of two with the same target, the later one."""
    key: Callable[[Part], str] = (
        _target_key
        if of_service in _TARGETS
        else _grant_key
        if of_service in _GRANTS
        else _part_key
    )
    parts = {key(part): part for part in (*base.items, *over.items)}
    return Part([*parts.values()], over.place)


def _part_key(part: Part) -> str:
    return repr(part.plain())


def _target_key(part: Part) -> str:
    if isinstance(part.value, dict):
        return str(part.plain().get("target"))
    fields = str(part.value).split(":")
    return fields[0] if len(fields) == 1 else fields[1]


def _grant_key(part: Part) -> str:
    if not isinstance(part.value, dict):
        return str(part.value)
    fields = part.plain()
    return str(fields.get("target") or fields.get("source"))


def _as_pairs(part: Part) -> Part:
    """Return NAME=value lines as a mapping."""
    if not isinstance(part.value, list):
        return part
    pairs = {}
    for line in part.value:
        name, equals, value = str(line.value).partition("=")
        pairs[name] = Part(value if equals else None, line.place)
    return Part(pairs, part.place)


def _as_list(part: Part) -> Part:
    return Part(part.items, part.place)


def _as_dependencies(part: Part) -> Part:
    if not isinstance(part.value, list):
        return part
    dependencies = {
        str(line.value): Part({"condition": Part(STARTED, line.place)}, line.place)
        for line in part.value
    }
    return Part(dependencies, part.place)


def _as_names(part: Part) -> Part:
    if not isinstance(part.value, list):
        return part
    return Part({str(line.value): Part(None, line.place) for line in part.value}, part.place)


def to_build(part: Part) -> Part:
    """Return a build as a mapping, also if it is a context alone."""
    return part if isinstance(part.value, dict) else Part({"context": part}, part.place)


_FORMS: dict[Key, Callable[[Part], Part]] = {
    **dict.fromkeys(_PAIRS, _as_pairs),
    **dict.fromkeys([("env_file",), ("tmpfs",), ("dns",), ("dns_search",)], _as_list),
    ("depends_on",): _as_dependencies,
    ("networks",): _as_names,
    ("build",): to_build,
}  # fmt: skip
