"""Variables of a Compose file, by Compose's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.importers.compose.variables import Variables, read_variables


def fill(text: str, **values: str) -> str:
    return Variables(values).fill(text, lambda: "file:1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A and ${A}", "one and one"),
        ("$$A", "$A"),
        ("${B:-other}${B-other}", "otherother"),
        ("${EMPTY:-other}|${EMPTY-other}", "other|"),
        ("${A:+given}${B:+given}", "given"),
        ("${EMPTY:+given}|${EMPTY+given}", "|given"),
        ("${B:-${A}}", "one"),
        ("${B:-${C:-deep}}", "deep"),
        ("${A:?must be}", "one"),
        ("no variable, 5 %", "no variable, 5 %"),
    ],
)
def test_each_form_of_a_variable_is_filled_in(text: str, expected: str) -> None:
    assert fill(text, A="one", EMPTY="") == expected


@pytest.mark.parametrize("text", ["${", "${A", "$-", "${1A}", "${A!x}", "a $", "${A:-" * 20])
def test_what_is_no_variable_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InputError) as refused:
        fill(text)
    assert refused.value.place == "file:1"


@pytest.mark.parametrize("text", ["${A:?say it}", "${A?say it}"])
def test_a_variable_that_must_be_set_is_asked_for(text: str) -> None:
    with pytest.raises(InputError) as refused:
        fill(text)
    assert refused.value.got == "say it"


def test_a_variable_that_is_not_set_is_empty_and_remembered() -> None:
    variables = Variables({})
    assert variables.fill("a$A.", lambda: "file:7") == "a."
    assert variables.missing == {"A": "file:7"}


def test_an_env_file_knows_quotes_comments_and_the_variables_before(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        "# comment\nA=one # two\nexport B=\"$A b\"\nC='$A'\nD=${HOME_OF:-none}\nE\nF=\n", "utf-8"
    )
    assert read_variables(path, {"E": "from outside"}) == {
        "A": "one",
        "B": "one b",
        "C": "$A",
        "D": "none",
        "E": "from outside",
        "F": "",
    }


def test_a_broken_line_of_an_env_file_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("A=1\n=2\n", "utf-8")
    with pytest.raises(InputError) as refused:
        read_variables(path, {})
    assert refused.value.place == f"{path}:2"


def test_an_env_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("A=" + "x" * 200_000, "utf-8")
    with pytest.raises(InputError):
        read_variables(path, {})


def test_a_device_is_no_file_of_variables() -> None:
    with pytest.raises(InputError) as error:
        read_variables(Path("/dev/null"), {})
    assert error.value.place == "/dev/null"
