"""A Compose file as checked values, each with its line: YAML 1.2, variables filled in.

The schema is the Compose specification's own: `compose-spec.json` of 23 June 2026, Apache-2.0,
github.com/compose-spec/compose-spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from core.config_file import ConfigFile, Key, raise_all, read_text
from core.errors import InputError
from core.json_object import JsonObject
from experiments.importers.compose.variables import Variables, check_size

SCHEMA = Path(__file__).with_name("compose-spec.json")
BYTES_MAX = 1_000_000
NODES_MAX = 50_000  # with each use of an alias counted
DEPTH_MAX = 40
ERRORS_MAX = 20
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Scalars of YAML 1.2, as Compose reads them: `yes` and `22:22` are texts."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("merge", "<<", "<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"^(?:{_pattern})$"),
        [*_first.replace("\0", ""), *([""] if "\0" in _first else [])],
    )


class _Reader:
    """Reads the nodes of one file, and counts them."""

    def __init__(self, path: Path, variables: Variables) -> None:
        self.path = path
        self.variables = variables
        self.lines: dict[Key, int] = {}
        self.nodes = 0

    def value(self, node: yaml.Node, key: Key) -> Any:
        """Return the value of a node, variables filled in."""
        self.nodes += 1
        line = node.start_mark.line + 1
        self.lines.setdefault(key, line)
        if self.nodes > NODES_MAX or len(key) > DEPTH_MAX:
            raise self.error(
                line,
                f"at most {NODES_MAX:,} values, {DEPTH_MAX} deep",
                "more",
                "Take out aliases (*NAME) that repeat or contain themselves.",
            )
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*key, index)) for index, item in enumerate(node.value)]
        return self.scalar(node, key)

    def mapping(self, node: yaml.MappingNode, key: Key) -> JsonObject:
        """Return the keys of a mapping, merged with those of `<<`. Its own keys take precedence."""
        merged: JsonObject = {}
        values: JsonObject = {}
        for name, value in node.value:
            if name.tag == _MERGE:
                sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for source in sources:
                    base = self.value(source, key)
                    if not isinstance(base, dict):
                        raise self.error(
                            name.start_mark.line + 1, "a mapping to merge", repr(base)[:40]
                        )
                    merged = {**base, **merged}
                continue
            if not isinstance(name, yaml.ScalarNode):
                raise self.error(name.start_mark.line + 1, "a name before the colon", name.id)
            if name.value in values:
                raise self.error(
                    name.start_mark.line + 1, "each key once", f"{name.value} a second time"
                )
            self.lines[(*key, name.value)] = name.start_mark.line + 1
            values[name.value] = self.value(value, (*key, name.value))
        return {**merged, **values}

    def scalar(self, node: yaml.Node, key: Key) -> Any:
        """Return a text with its variables filled in, a number, true, false or nothing."""
        kind = node.tag.rpartition(":")[2]
        if kind == "str" or "$" in node.value:
            place = ConfigFile(self.path, {}, lambda: self.lines).place
            return self.variables.fill(node.value, lambda: place(*key))
        match kind:
            case "null":
                return None
            case "bool":
                return node.value.lower() == "true"
            case "int" if len(node.value) <= 20:
                return int(node.value, 0 if node.value[:2] in ("0o", "0x") else 10)
            case "float" if len(node.value) <= 40:
                return float(node.value)
        raise self.error(
            node.start_mark.line + 1, "a text, a number, true, false or null", f"{node.tag}"
        )

    def error(self, line: int, expected: str, got: str, hint: str = "Correct it.") -> InputError:
        return InputError(f"{self.path}:{line}", expected=expected, got=got, hint=hint)


def read_compose(path: Path, variables: Variables) -> ConfigFile:
    """Return the values of a Compose file, checked by the schema.

    Raises InputError with file, line and key; errors of the schema are raised together.
    """
    check_size(path, BYTES_MAX)
    reader = _Reader(path, variables)
    try:
        node = yaml.compose(read_text(path), Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise reader.error(line, "valid YAML", str(error.problem)) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise reader.error(1, "valid YAML", str(error).splitlines()[0]) from error
    if not isinstance(node, yaml.MappingNode):
        raise reader.error(1, "a Compose file, with services", "none")
    values = reader.mapping(node, ())
    source = ConfigFile(path, values, lambda: reader.lines)
    raise_all([*_schema_errors(source)][:ERRORS_MAX])
    return source


@cache
def _validator() -> Any:
    import jsonschema  # type: ignore[import-untyped]

    return jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def _schema_errors(source: ConfigFile) -> Iterator[InputError]:
    errors = sorted(
        _validator().iter_errors(source.values), key=lambda error: list(map(str, error.path))
    )
    for error in errors:
        deepest = _deepest(error)
        if deepest.validator == "additionalProperties":
            known = deepest.schema.get("properties", {})
            for name in deepest.instance:
                if name not in known and not name.startswith("x-"):
                    yield source.error(
                        *deepest.absolute_path,
                        name,
                        expected="a key of the Compose specification",
                        got=f"the unknown key {name}",
                        hint="Correct or remove it; keys of other programs begin with x-.",
                    )
            continue
        key = tuple(deepest.absolute_path)
        yield source.error(*key, expected=_describe_rule(deepest), got=repr(deepest.instance)[:80])


def _deepest(error: Any) -> Any:
    """Return, of the errors of failed alternatives, the one that is deepest in the file."""
    while error.context:
        error = max(error.context, key=lambda alternative: len(alternative.absolute_path))
    return error


def _describe_rule(error: Any) -> str:
    match error.validator:
        case "type":
            kinds = (
                [error.validator_value]
                if isinstance(error.validator_value, str)
                else error.validator_value
            )
            return f"a value of type {' or '.join(kinds)}"
        case "enum":
            return f"one of {', '.join(map(str, error.validator_value))}"
        case "pattern":
            return f"a text that fits {error.validator_value}"
        case "required":
            return f"the keys {', '.join(error.validator_value)}"
    rule = f"{error.validator}: {str(error.validator_value)[:60]}"
    return f"what the Compose specification allows ({rule})"
