"""Parts of Compose files, each with the place where it is written, merged by Compose's rules.

The rules are those of the specification's chapter on merging: keys of mappings are merged, items of
lists are added, a single value replaces the other; the tables have the exceptions.
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
    def named(self) -> dict[str, Part]:
        """The parts of a mapping; none of anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Part]:
        """The parts of a list; of a single value itself."""
        if self.value is None:
            return []
        return self.value if isinstance(self.value, list) else [self]

    def with_named(self, parts: Mapping[str, Part]) -> Part:
        """Return the same mapping with other parts."""
        return Part({**self.named, **parts}, self.place)

    def without(self, name: str) -> Part:
        """Return the same mapping without one of its names."""
        return Part({key: one for key, one in self.named.items() if key != name}, self.place)

    def plain(self) -> Any:
        """Return the values alone."""
        if isinstance(self.value, dict):
            return {name: one.plain() for name, one in self.value.items()}
        if isinstance(self.value, list):
            return [one.plain() for one in self.value]
        return self.value

    def places(self, key: Key = ()) -> Iterator[tuple[Key, str]]:
        """Yield each key with its place."""
        yield key, self.place
        for name, one in self.named.items():
            yield from one.places((*key, name))
        for at, one in enumerate(self.value if isinstance(self.value, list) else ()):
            yield from one.places((*key, at))

    def size(self) -> int:
        """Return the number of parts in it, with itself."""
        return sum(1 for _ in self.places())


class ComposeFile(ConfigFile):
    """The values of a Compose file and of those that it names; a key keeps its file and line."""

    def __init__(
        self, path: Path, values: dict[str, Any], places: Mapping[Key, str], below: Key = ()
    ) -> None:
        super().__init__(path, values, dict, below)
        self._places = places

    def part(self, values: dict[str, Any], *key: str | int) -> ComposeFile:
        return ComposeFile(self.path, values, self._places, (*self._below, *key))

    def place(self, *key: str | int) -> str:
        key = (*self._below, *key)
        known = (key[:length] for length in range(len(key), 0, -1) if key[:length] in self._places)
        found = next(known, None)
        if found is None:
            return super().place(*key[len(self._below) :])
        return f"{self._places[found]}: {'.'.join(map(str, key))}"


def part_of(source: ConfigFile) -> Part:
    """Return the values of one file as parts."""

    def of(value: Any, key: Key) -> Part:
        place = source.place(*key)
        if key:
            place = place.removesuffix(f": {'.'.join(map(str, key))}")
        if isinstance(value, dict):
            return Part({name: of(one, (*key, name)) for name, one in value.items()}, place)
        if isinstance(value, list):
            return Part([of(one, (*key, at)) for at, one in enumerate(value)], place)
        return Part(value, place)

    return of(source.values, ())


_REPLACED: set[Key] = {("command",), ("entrypoint",), ("healthcheck", "test")}
_PAIRS: set[Key] = {
    ("annotations",), ("environment",), ("labels",), ("sysctls",), ("build", "args"),
    ("build", "labels"), ("deploy", "labels"),
}  # fmt: skip
_TARGETS: set[Key] = {("volumes",), ("devices",)}  # an item takes the place of one with its target
_GRANTS: set[Key] = {("configs",), ("secrets",)}


def merged(base: Part, over: Part, key: Key = ()) -> Part:
    """`base` with `over` merged into it, both at `key` of a file."""
    of_service = key[2:] if key[:1] == ("services",) else None
    if over.value is None:
        return base
    if base.value is None or of_service in _REPLACED:
        return over
    form = _FORMS.get(of_service) if of_service is not None else None
    if form is not None:
        base, over = form(base), form(over)
    if of_service in _PAIRS:  # a name without a value is the environment's, and wins
        return base.with_named(over.named)
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        return _mappings(base, over, key)
    if isinstance(base.value, list) and isinstance(over.value, list):
        return _lists(base, over, of_service)
    return over


def _mappings(base: Part, over: Part, key: Key) -> Part:
    found = dict(base.named)
    for name, one in over.named.items():
        found[name] = merged(found[name], one, (*key, name)) if name in found else one
    return Part(found, over.place)


def _lists(base: Part, over: Part, of_service: Key | None) -> Part:
    """Items of both, each once; of two with the same target, the later one."""
    name: Callable[[Part], str] = (
        _target if of_service in _TARGETS else _grant if of_service in _GRANTS else _itself
    )
    found = {name(one): one for one in (*base.items, *over.items)}
    return Part([*found.values()], over.place)


def _itself(one: Part) -> str:
    return repr(one.plain())


def _target(one: Part) -> str:
    if isinstance(one.value, dict):
        return str(one.plain().get("target"))
    words = str(one.value).split(":")
    return words[0] if len(words) == 1 else words[1]


def _grant(one: Part) -> str:
    if not isinstance(one.value, dict):
        return str(one.value)
    told = one.plain()
    return str(told.get("target") or told.get("source"))


def _as_pairs(one: Part) -> Part:
    """NAME=value lines as a mapping."""
    if not isinstance(one.value, list):
        return one
    found = {}
    for line in one.value:
        name, equals, value = str(line.value).partition("=")
        found[name] = Part(value if equals else None, line.place)
    return Part(found, one.place)


def _as_list(one: Part) -> Part:
    return Part(one.items, one.place)


def _as_dependencies(one: Part) -> Part:
    if not isinstance(one.value, list):
        return one
    condition = {
        str(line.value): Part({"condition": Part(STARTED, line.place)}, line.place)
        for line in one.value
    }
    return Part(condition, one.place)


def _as_names(one: Part) -> Part:
    if not isinstance(one.value, list):
        return one
    return Part({str(line.value): Part(None, line.place) for line in one.value}, one.place)


def as_build(one: Part) -> Part:
    """Return a build context alone as a mapping."""
    return one if isinstance(one.value, dict) else Part({"context": one}, one.place)


_FORMS: dict[Key, Callable[[Part], Part]] = {
    **dict.fromkeys(_PAIRS, _as_pairs),
    **dict.fromkeys([("env_file",), ("tmpfs",), ("dns",), ("dns_search",)], _as_list),
    ("depends_on",): _as_dependencies,
    ("networks",): _as_names,
    ("build",): as_build,
}  # fmt: skip
