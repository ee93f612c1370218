"""The text of generated JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from core.json_object import format_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda children: st.lists(children) | st.dictionaries(st.text(max_size=20), children),
    max_leaves=30,
)


@given(VALUES)
def test_the_text_has_the_value_and_no_line_that_could_be_broken(value: object) -> None:
    text = format_json(value, columns=40)
    assert json.loads(text) == value
    long_lines = [line.rstrip(",") for line in text.split("\n") if len(line) > 40]
    assert all(line.endswith(("[]", "{}")) or line[-1] not in "]}" for line in long_lines)


def test_what_fits_into_a_line_is_in_one() -> None:
    value = {"short": [1, {"two": "ü"}], "long": ["a" * 20, "b" * 20]}
    lines = ["{", '  "short": [1, {"two": "ü"}],', '  "long": [', f'    "{"a" * 20}",',
             f'    "{"b" * 20}"', "  ]", "}"]  # fmt: skip
    assert format_json(value, columns=40).split("\n") == lines
