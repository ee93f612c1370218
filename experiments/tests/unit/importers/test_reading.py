"""A Compose file and its variables: read with places, refused with lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from experiments.importers.compose.reading import BYTES_MAX, read_compose
from experiments.importers.compose.variables import Variables, read_variables

WEB = "services:\n  web:\n    image: nginx\n"


def read(tmp_path: Path, text: str, **values: str) -> dict[str, object]:
    path = tmp_path / "compose.yaml"
    path.write_text(text, encoding="utf-8")
    return read_compose(path, Variables(values)).values


def refused_places(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as error_info:
        read(tmp_path, text)
    errors = [error_info.value, *error_info.value.also]
    return [error.place.removeprefix(f"{tmp_path}/") for error in errors]


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    values = read(tmp_path, WEB + "    ports: [22:22, 8080]\n    user: no\n    tty: true\n")
    assert values["services"] == {
        "web": {"image": "nginx", "ports": ["22:22", 8080], "user": "no", "tty": True}
    }


def test_variables_are_filled_into_texts_and_anchors_are_merged(tmp_path: Path) -> None:
    shared = "x-all: &all\n  image: shop:${TAG}\n  user: root\n"
    text = f"{shared}services:\n  web:\n    <<: *all\n    user: me\n"
    values = read(tmp_path, text, TAG="3")
    assert values["services"] == {"web": {"image": "shop:3", "user": "me"}}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (WEB + "    imge: x\n", "compose.yaml:4: services.web.imge"),
        (WEB + "servces: {}\n", "compose.yaml:4: servces"),
        (WEB + "    ports: 80\n", "compose.yaml:4: services.web.ports"),
        (
            WEB + "    depends_on: { db: { condition: 3 } }\n",
            "compose.yaml:4: services.web.depends_on.db.condition",
        ),
        (WEB + "    image: twice\n", "compose.yaml:4"),
        (WEB + "  web: {}\n", "compose.yaml:4"),
        (WEB + "    build: [\n", "compose.yaml:5"),
        (WEB + "    image: !secret x\n", "compose.yaml:4"),
        ("services: 3\n", "compose.yaml:1: services"),
        ("- a list\n", "compose.yaml:1"),
        ("", "compose.yaml:1"),
        (WEB + "    command: ${\n", "compose.yaml:4: services.web.command"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    assert refused_places(tmp_path, text)[0] == place


def test_all_unknown_keys_are_told_at_once(tmp_path: Path) -> None:
    places = refused_places(tmp_path, WEB + "    imge: x\n    prots: y\nfoo: 1\n")
    assert sorted(places) == ["compose.yaml:4: services.web.imge",
                              "compose.yaml:5: services.web.prots",
                              "compose.yaml:6: foo"]  # fmt: skip


def test_aliases_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["x-a: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"x-a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert len(refused_places(tmp_path, "\n".join([*lines, WEB]))) == 1


def test_an_alias_that_contains_itself_is_refused(tmp_path: Path) -> None:
    assert len(refused_places(tmp_path, "x-a: &a [*a]\n" + WEB)) == 1


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    assert refused_places(tmp_path, WEB + "#" * BYTES_MAX) == ["compose.yaml"]


def fill(text: str, **values: str) -> str:
    return Variables(values).fill(text, lambda: "file:1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$A and ${A}", "one and one"), ("$$A", "$A"), ("${B:-other}${B-other}", "otherother"),
     ("${EMPTY:-other}|${EMPTY-other}", "other|"), ("${A:+given}${B:+given}", "given"),
     ("${EMPTY:+given}|${EMPTY+given}", "|given"), ("${B:-${A}}", "one"),
     ("${B:-${C:-deep}}", "deep"), ("${A:?must be}", "one"),
     ("no variable, 5 %", "no variable, 5 %")],
)  # fmt: skip
def test_each_form_of_a_variable_is_filled_in(text: str, expected: str) -> None:
    assert fill(text, A="one", EMPTY="") == expected


@pytest.mark.parametrize("text", ["${", "${A", "$-", "${1A}", "${A!x}", "a $", "${A:-" * 20])
def test_what_is_no_variable_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InputError) as error:
        fill(text)
    assert error.value.place == "file:1"


@pytest.mark.parametrize("text", ["${A:?say it}", "${A?say it}"])
def test_a_variable_that_must_be_set_is_asked_for(text: str) -> None:
    with pytest.raises(InputError) as error:
        fill(text)
    assert error.value.got == "say it"


def test_a_variable_that_is_not_set_is_empty_and_remembered() -> None:
    variables = Variables({})
    assert variables.fill("a$A.", lambda: "file:7") == "a."
    assert variables.missing == {"A": "file:7"}


def test_an_env_file_knows_quotes_comments_and_the_variables_before(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        "# comment\nA=one # two\nexport B=\"$A b\"\nC='$A'\nD=${HOME_OF:-none}\nE\nF=\n", "utf-8"
    )
    assert read_variables(path, {"E": "from outside"}) == {"A": "one", "B": "one b", "C": "$A",
                                                           "D": "none", "E": "from outside",
                                                           "F": ""}  # fmt: skip


@pytest.mark.parametrize(("text", "line"), [("A=1\n=2\n", ":2"), ("A=" + "x" * 200_000, "")])
def test_an_env_file_that_is_broken_or_too_large_is_refused(
    tmp_path: Path, text: str, line: str
) -> None:
    path = tmp_path / ".env"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as error:
        read_variables(path, {})
    assert error.value.place == f"{path}{line}"
