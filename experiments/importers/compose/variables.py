"""Variables in a Compose file, by Compose's rules: the environment has precedence over `.env`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from core.config_file import read_text
from core.errors import InputError

BYTES_MAX = 100_000  # of a file of variables
_DEPTH_MAX = 10  # of ${A:-${B:-...}}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Variables:
    """Values of variables, and the names that were used without a value."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self.missing: dict[str, str] = {}  # name to the first place

    def fill(self, text: str, place: Callable[[], str]) -> str:
        """Return `text` with $NAME and ${NAME...} replaced; `$$` is one `$`.

        Raises InputError with `place` for invalid syntax, and for a variable that has to be set.
        """
        return self._fill(text, place, 0)

    def _fill(self, text: str, place: Callable[[], str], depth: int) -> str:
        if depth > _DEPTH_MAX:
            raise _syntax_error(place, text)
        done, rest = [], text
        while (at := rest.find("$")) >= 0:
            done.append(rest[:at])
            rest = rest[at + 1 :]
            if rest.startswith("$"):
                done.append("$")
                rest = rest[1:]
            elif rest.startswith("{"):
                inner, rest = _split_braces(rest, place, text)
                done.append(self._expand(inner, place, depth))
            elif (name := _NAME.match(rest)) is not None:
                done.append(self._value(name[0], place))
                rest = rest[name.end() :]
            else:
                raise _syntax_error(place, text)
        return "".join([*done, rest])

    def _value(self, name: str, place: Callable[[], str]) -> str:
        value = self._values.get(name)
        if value is None:
            self.missing.setdefault(name, place())
        return value or ""

    def _expand(self, inner: str, place: Callable[[], str], depth: int) -> str:
        """Return the value of `NAME`, or of `NAME` with an operator: `-` (default), `?` (refuse) or
        `+` (instead of a value). With a colon before it, an empty value counts as none.
        """
        name = _NAME.match(inner)
        if name is None:
            raise _syntax_error(place, f"${{{inner}}}")
        rest = inner[name.end() :]
        if not rest:
            return self._value(name[0], place)
        operator = re.match(r":?[-?+]", rest)
        if operator is None:
            raise _syntax_error(place, f"${{{inner}}}")
        value = self._values.get(name[0])
        is_set = bool(value) if operator[0].startswith(":") else value is not None
        alternative = rest[operator.end() :]
        match operator[0][-1]:
            case "-":
                return value or "" if is_set else self._fill(alternative, place, depth + 1)
            case "+":
                return self._fill(alternative, place, depth + 1) if is_set else ""
            case _:
                if not is_set:
                    raise InputError(
                        place(),
                        expected=f"the variable {name[0]}",
                        got=alternative or "no value",
                        hint=f"Set it in .env, or in the environment: {name[0]}=...",
                    )
                return value or ""


def _split_braces(rest: str, place: Callable[[], str], text: str) -> tuple[str, str]:
    """Return the text inside the braces that `rest` begins with, and the text after them."""
    depth = 0
    for index, letter in enumerate(rest):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return rest[1:index], rest[index + 1 :]
    raise _syntax_error(place, text)


def _syntax_error(place: Callable[[], str], text: str) -> InputError:
    return InputError(
        place(),
        expected="$NAME, ${NAME}, ${NAME:-default}, ${NAME:?error} or ${NAME:+other}",
        got=repr(text[:80]),
        hint="Correct it; a dollar sign itself is written $$.",
    )


def read_variables(path: Path, known: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an env file; a value may use those above it and the `known` ones.

    Raises InputError with file and line for invalid syntax, and for a file too large.
    """
    import io

    from dotenv.parser import parse_stream

    check_size(path, BYTES_MAX)
    values: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(read_text(path))):
        place = f"{path}:{binding.original.line}"
        if binding.error:
            raise InputError(
                place, expected="NAME=value", got=repr(binding.original.string.strip()[:80])
            )
        if binding.key is None:
            continue
        if binding.value is None:  # a name alone is taken from the environment
            values.update({binding.key: known[binding.key]} if binding.key in known else {})
            continue
        is_quoted = re.match(r"\s*(export\s+)?[^=]*=\s*'", binding.original.string) is not None
        variables = Variables({**values, **known})
        values[binding.key] = (
            binding.value if is_quoted else variables.fill(binding.value, lambda place=place: place)  # type: ignore[misc]
        )
    return values


def check_size(path: Path, bytes_max: int) -> None:
    """Raise InputError for a file of more bytes, and for a device or a pipe. A missing file is
    left to its reader.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(str(path), expected="a file", got="a device or a pipe")
    if path.is_file() and (size := path.stat().st_size) > bytes_max:
        raise InputError(
            str(path),
            expected=f"a file of at most {bytes_max:,} bytes",
            got=f"{size:,}",
            hint="Remove files that it does not need.",
        )
