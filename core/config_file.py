"""Configuration files as checked models, with errors that name file, line and key.

tomllib and python-hcl2 do not report the line of a key. `key_lines` finds it with a small scanner
that knows strings, comments, tables and braces, which is enough for both languages.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from core.errors import LEAST, MOST, TIME_EXPECTED, InputError, SparecraftError
from core.json_object import JsonObject
from core.units import TIME_S_MOST

Key = tuple[str | int, ...]
Lines = Callable[[], Mapping[Key, int]]  # computed on demand, because few files have an error

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*|//[^\n]*|/\*.*?\*/)
    |(?P<string>\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    |(?P<table>(?:(?<=\n)|\A)[ \t]*\[\[?[^\]\n]+\]\]?(?=[ \t]*(?:\#|\r?\n|\Z)))
    |(?P<word>[A-Za-z0-9_.\-]+)
    |(?P<mark>[={}\[\],:])""",
    re.VERBOSE | re.DOTALL,
)


class Strict(BaseModel):
    """A frozen model that refuses unknown keys, names the known ones, and converts nothing."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict) and cls.model_config.get("extra") == "forbid":
            known = [field.alias or name for name, field in cls.model_fields.items()]
            for key in data:
                if key not in known:
                    raise refusal(
                        f"one of the keys {', '.join(known)}",
                        got=f"the unknown key {key}",
                        key=str(key),
                        hint="Correct or remove it.",
                    )
        return data


class Written(BaseModel):
    """A frozen model of a program's output: it ignores unknown keys, and converts nothing."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)


def refusal(
    expected: str, *, got: str, key: str = "", hint: str = "Correct it."
) -> PydanticCustomError:
    """Return a model's error with the parts of an InputError; `key` is relative to the model."""
    context = {"expected": expected, "got": got, "key": key, "hint": hint}
    return PydanticCustomError("refused", "expected {expected} (got {got})", context)


def _require_positive(value: float, most: float = MOST) -> float:
    if not LEAST <= value <= most:
        raise refusal(f"a number above 0 ({LEAST:g} to {most:g})", got=f"{value:g}")
    return value


def _require_time(value_s: float) -> float:
    if _require_positive(value_s) > TIME_S_MOST:
        raise refusal(TIME_EXPECTED, got=f"{value_s:g} s")
    return value_s


Positive = Annotated[float, AfterValidator(_require_positive)]  # as `errors.require_positive`
Seconds = Annotated[float, AfterValidator(_require_time)]  # as `errors.require_time`
Share = Annotated[float, AfterValidator(lambda value: _require_positive(value, 1.0))]  # above 0
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]  # of a type, a region


class Interval(Written):
    """Two ends, both above 0 and in their order."""

    low: Positive
    high: Positive | None

    @model_validator(mode="after")
    def _in_order(self) -> Interval:
        if self.high is not None and self.high < self.low:
            raise refusal(f"at least low ({self.low:g})", got=f"{self.high:g}", key="high")
        return self


@dataclass(frozen=True)
class Problem:
    """A problem at a key of a file."""

    key: Key
    expected: str
    got: str
    hint: str = "Correct it."


def named_twice(names: Sequence[str], *key: str | int) -> Iterator[Problem]:
    """Yield a problem for each name at `key` that an earlier table of the list has too."""
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem((*key, number, "name"), "a name of its own", repr(name))


class ConfigFile:
    """One input file: its text, its values, and the line of each key."""

    def __init__(
        self, path: Path, values: JsonObject, lines: Lines = dict, below: Key = ()
    ) -> None:
        self.path = path
        self.values = values
        self._lines = lines
        self._below = below

    def section(self, name: str) -> ConfigFile:
        """Return the table `name` of this file as a source; an empty one if it is missing."""
        return self.part(self.values.get(name, {}), name)

    def part(self, values: JsonObject, *key: str | int) -> ConfigFile:
        """Return the values at `key` as a source."""
        return ConfigFile(self.path, values, self._lines, (*self._below, *key))

    def having(self, values: JsonObject) -> ConfigFile:
        """Return the same file with other values; its keys keep their lines."""
        return ConfigFile(self.path, values, self._lines, self._below)

    def over(self, at: Key, values: JsonObject) -> ConfigFile:
        """Return the same file with other values; a key of its table `at` counts as a key of the
        file's top.
        """

        def lines() -> Mapping[Key, int]:
            all_lines = self._lines()
            inner = {
                key[len(at) :]: line for key, line in all_lines.items() if key[: len(at)] == at
            }
            return {**all_lines, **{key: line for key, line in inner.items() if key}}

        return ConfigFile(self.path, values, lines, self._below)

    def place(self, *key: str | int) -> str:
        """Return `file:line: a.b.c` of a key, with the line of the nearest key in the file."""
        key = (*self._below, *key)
        dotted = ".".join(str(part) for part in key)
        lines = self._lines()
        for length in range(len(key), 0, -1):
            if key[:length] in lines:
                return f"{self.path}:{lines[key[:length]]}: {dotted}"
        return f"{self.path}: {dotted}" if dotted else str(self.path)

    def error(
        self, *key: str | int, expected: str, got: str, hint: str = "Correct it."
    ) -> InputError:
        """Return an InputError at a key of this file."""
        return InputError(self.place(*key), expected=expected, got=got, hint=hint)

    @contextmanager
    def naming(self, *key: str | int) -> Iterator[None]:
        """Set the place of an InputError that the block raises to this key of the file."""
        try:
            yield
        except InputError as error:
            raise error.at(self.place(*key)) from error

    def refuse(self, problem: Problem) -> InputError:
        got, hint = problem.got, problem.hint
        return self.error(*problem.key, expected=problem.expected, got=got, hint=hint)

    def refuse_all(self, problems: Iterable[Problem]) -> None:
        """Raise one InputError for all problems, if there are any."""
        raise_all([self.refuse(problem) for problem in problems])


def raise_all(errors: Iterable[InputError]) -> None:
    """Raise one InputError for all errors, if there are any."""
    parts = [_as_input_error(part) for error in errors for part in (error, *error.also)]
    if parts:
        raise _as_input_error(parts[0], parts[1:])


def _as_input_error(error: SparecraftError, also: Sequence[SparecraftError] = ()) -> InputError:
    parts = {"expected": error.expected, "got": error.got, "hint": error.hint}
    return InputError(error.place, **parts, also=also)


def read_json(path: Path) -> ConfigFile:
    """Parse a JSON file that holds an object."""
    return parse_json(read_text(path), path)


def parse_json(text: str, path: Path) -> ConfigFile:
    """Parse a JSON object that is written in `path`."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            str(path), expected="valid JSON", got=str(error), hint="Correct that line."
        ) from error
    if not isinstance(values, dict):
        raise InputError(str(path), expected="a JSON object", got=type(values).__name__)
    return ConfigFile(path, values, cache(lambda: key_lines(text)))


def read_toml(path: Path) -> ConfigFile:
    return parse_toml(read_text(path), path)


def parse_toml(text: str, path: Path) -> ConfigFile:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        got = f"{error}{_error_line(text, str(error))}"
        raise InputError(
            str(path), expected="valid TOML", got=got, hint="Correct that line."
        ) from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, deep nesting
        raise InputError(str(path), expected="valid TOML", got=str(error)) from error
    return ConfigFile(path, values, cache(lambda: key_lines(text)))


def _error_line(text: str, message: str) -> str:
    """Return the line of tomllib's error; for a key given twice with the key."""
    match, lines = re.search(r"at line (\d+)", message), text.splitlines()
    if match is None or int(match[1]) > len(lines):
        return ""
    return f": {lines[int(match[1]) - 1].strip()}"


def read_tfvars(path: Path) -> ConfigFile:
    return parse_tfvars(read_text(path), path)


def parse_tfvars(text: str, path: Path) -> ConfigFile:
    """Parse Terraform variables (HCL attributes with literal values) that are written in `path`."""
    from lark.exceptions import LarkError, UnexpectedInput

    try:
        values = json.loads(_hcl_as_json(text))
    except UnexpectedInput as error:
        raise InputError(
            f"{path}:{error.line}",
            expected="valid HCL, as terraform fmt writes it",
            got=str(error).splitlines()[0],
            hint="Correct that line.",
        ) from error
    except LarkError as error:
        raise InputError(str(path), expected="valid HCL", got=str(error)) from error
    lines = key_lines(text, unique_in=path)
    return ConfigFile(path, values, lambda: lines)


@lru_cache(maxsize=128)
def _hcl_as_json(text: str) -> str:
    """Parse HCL, each text once, because a parse takes longer than all use of its values."""
    # Imported here: building the grammar takes half a second that most commands need not spend.
    import hcl2

    options = hcl2.SerializationOptions(with_comments=False, strip_string_quotes=True)
    return json.dumps(hcl2.loads(text, serialization_options=options))


_Model = TypeVar("_Model", bound=BaseModel)


def check(source: ConfigFile, model: type[_Model]) -> _Model:
    """Validate a source. Raises one InputError with all problems, each with its place."""
    try:
        return model.model_validate(source.values)
    except ValidationError as error:
        problems = [_translate(source, dict(detail)) for detail in error.errors()]
        raise _as_input_error(problems[0], problems[1:]) from error


def _translate(source: ConfigFile, detail: JsonObject) -> InputError:
    key: Key = tuple(part for part in detail["loc"] if part != "[key]")
    context = detail.get("ctx", {})
    if detail["type"] == "refused":
        if context["key"]:
            parts = context["key"].split(".")
            key = (*key, *(int(part) if part.isdigit() else part for part in parts))
        return source.error(
            *key, expected=context["expected"], got=context["got"], hint=context["hint"]
        )
    if detail["type"] == "missing":
        return source.error(*key, expected="this key", got="nothing", hint="Add it.")
    expected = str(detail["msg"]).removeprefix("Input should be ").removeprefix("a valid ")
    return source.error(*key, expected=expected, got=repr(detail["input"]))


def read_text(path: Path) -> str:
    """Return the text of a file. Raises InputError if it is no file or no text."""
    try:
        return path.read_text(encoding="utf-8-sig")  # without the mark that some editors put
    except FileNotFoundError as error:
        raise InputError(
            str(path),
            expected="this file",
            got="no such file",
            hint="Give the path of an existing one, or write it.",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        got = (
            f"bytes that are no text (at {error.start})"
            if isinstance(error, UnicodeDecodeError)
            else str(error.strerror or error)
        )
        hint = "Give the path of such a file."
        raise InputError(
            str(path), expected="a readable UTF-8 text file", got=got, hint=hint
        ) from error


def key_lines(text: str, unique_in: Path | None = None) -> dict[Key, int]:
    """Return the line of every key in TOML or HCL text.

    `unique_in`: refuse a repeated key as an error in this file (python-hcl2 takes the last one
    silently, Terraform refuses it).
    """
    lines: dict[Key, int] = {}
    table: Key = ()
    last_indices: dict[Key, int] = {}
    nesting: list[Key] = []  # what each open brace or bracket belongs to
    pending: Key | None = None  # the last key-like token
    value_of: Key = ()
    newlines, position = 0, 0  # the line ends before this position of the text
    for token in _TOKEN.finditer(text):
        newlines, position = newlines + text.count("\n", position, token.start()), token.start()
        line = newlines + 1 + token.group().count("\n", 0, 1)
        base = nesting[-1] if nesting else table
        match token.lastgroup:
            case "table" if not nesting:
                table = _table_key(token.group().strip(), last_indices)
                lines[table] = line
            case "word" | "string":
                pending = (*base, *_key_parts(token.group()))
                pending_line = line
            case "mark" if token.group() in "=:" and pending is not None:
                if unique_in is not None and pending in lines:
                    place = f"{unique_in}:{pending_line}: {'.'.join(str(part) for part in pending)}"
                    raise InputError(place, expected="each key once", got="it a second time")
                lines[pending] = pending_line
                value_of, pending = pending, None
            case "mark" if token.group() in "{[":
                nesting.append(value_of if value_of else base)
            case "mark" if token.group() in "}]" and nesting:
                nesting.pop()
                pending = None
            case _:
                pass
    return lines


def _table_key(header: str, last_indices: dict[Key, int]) -> Key:
    """Return the key of a table's header: (a, b) for `[a.b]`, (faults, n) for the n-th
    `[[faults]]`, and (faults, n, c) for `[faults.c]` below it.
    """
    key: Key = _key_parts(header.strip("[]").strip())
    for length in range(len(key) - 1, 0, -1):
        if (last := last_indices.get(key[:length])) is not None:
            key = (*key[:length], last, *key[length:])
    if not header.startswith("[["):
        return key
    last_indices[key] = last_indices.get(key, -1) + 1
    return (*key, last_indices[key])


def _key_parts(token: str) -> Key:
    if token[0] in "\"'":
        return (token.strip("\"'"),)
    return tuple(token.split("."))
