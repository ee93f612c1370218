"""The wiki's pages as the dictionary parser makes them: no Docker, no database."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from build_wiki import all_pages
from gcide import DictionaryError, Entry, choose, decode_number, read_index
from wikitext import PARTS_OF_SPEECH, page_text, unicode_letters

ROOT = Path(__file__).resolve().parents[4]
CONTENT = ROOT / "infra" / "roles" / "mariadb" / "content"
TITLES = ROOT / "infra" / "roles" / "mariadb" / "titles.txt"
INDEX = Path("/usr/share/dictd/gcide.index")
DICTIONARY = Path("/usr/share/dictd/gcide.dict.dz")
LINK = re.compile(r"\[\[:?([^\]|]+)")
TEMPLATE = re.compile(r"\{\{([A-Z][a-z]+)")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(all_pages(INDEX, DICTIONARY))


def words(pages: dict[str, str]) -> dict[str, str]:
    return {t: text for t, text in pages.items() if ":" not in t and t != "Main Page"}


def test_there_are_at_least_2000_pages_of_words(pages: dict[str, str]) -> None:
    assert len(words(pages)) >= 2000


def test_the_committed_titles_are_the_pages(pages: dict[str, str]) -> None:
    assert TITLES.read_text(encoding="utf-8").split("\n")[:-1] == list(words(pages))


def test_a_link_points_to_a_page_that_exists(pages: dict[str, str]) -> None:
    targets = {target for text in words(pages).values() for target in LINK.findall(text)}
    assert len(targets) > 1000
    assert targets <= set(pages)


def test_most_pages_link_to_other_pages_and_none_to_itself(pages: dict[str, str]) -> None:
    linked = 0
    for title, text in words(pages).items():
        targets = [t for t in LINK.findall(text) if not t.startswith("Category:")]
        assert title not in targets
        linked += bool(targets)
    assert linked > 0.9 * len(words(pages))


def test_a_template_that_is_used_exists_and_every_page_uses_two(pages: dict[str, str]) -> None:
    for title, text in words(pages).items():
        used = {f"Template:{name}" for name in TEMPLATE.findall(text)}
        assert used <= set(pages), title
        assert len(used) >= 2, title


def test_every_page_is_in_its_letter_and_in_a_part_of_speech(pages: dict[str, str]) -> None:
    parts = {*PARTS_OF_SPEECH.values(), "Other words"}
    for title, text in words(pages).items():
        categories = set(re.findall(r"\[\[Category:([^\]]+)\]\]", text))
        assert title[0] in categories, title
        assert categories & parts, title


def test_braces_and_brackets_of_every_page_are_balanced(pages: dict[str, str]) -> None:
    for title, text in pages.items():
        assert text.count("{{") == text.count("}}"), title
        assert text.count("[[") == text.count("]]"), title


def test_characters_that_mean_something_to_the_wiki_are_escaped() -> None:
    text = page_text(
        "Odd", [Entry("Odd", "Odd \\Odd\\, a. [A [[b]] c.]\n   <b> a=b | {{x}} ''y''")], {}
    )
    body = text[text.index("}}\n") :]
    assert "<b>" not in body
    assert "''y''" not in body
    assert "&lt;b&gt;" in body
    assert "a&#61;b &#124;" in body


def test_a_cross_reference_to_a_page_that_is_missing_is_no_link() -> None:
    entry = Entry("Dog", 'Dog \\Dog\\ (d[o^]g), n.\n   A beast. See {Cat} and {Wolf"hound`}.')
    text = page_text("Dog", [entry], {"Dog": [], "Wolfhound": []})
    assert "[[Wolfhound|Wolfhound]]" in text
    assert "'''Cat'''" in text
    assert "dŏg" in text


def test_letters_of_the_dictionary_become_unicode() -> None:
    assert unicode_letters("[=e] [a^] [imac] [^o] [eacute] [zzz]") == "ē ă ī ô é [zzz]"


def test_the_choice_does_not_depend_on_the_order_of_the_entries() -> None:
    entries = [
        Entry(word, f"{word} \\{word}\\ " + "x" * 50) for word in ("Ant", "Bee", "Cow", "Dog")
    ]
    chosen = choose(entries, 2, 10, 100)
    assert list(choose(reversed(entries), 2, 10, 100)) == list(chosen)
    assert len(chosen) == 2


def test_too_few_entries_are_refused_with_what_was_expected() -> None:
    with pytest.raises(DictionaryError, match="expected at least 5 entries of 10 to 100"):
        choose([Entry("Ant", "Ant \\Ant\\ an insect")], 5, 10, 100)


def test_numbers_of_the_index_are_base_64_and_others_are_refused() -> None:
    assert decode_number("BA") == 64
    with pytest.raises(DictionaryError, match="base-64"):
        decode_number("B-")
    with pytest.raises(DictionaryError, match="index line 1"):
        read_index(["no tabs here\n"])


def test_a_damaged_dictionary_ends_with_one_line_and_code_2(tmp_path: Path) -> None:
    index = tmp_path / "bad.index"
    index.write_text("word only\n", encoding="utf-8")
    command = [sys.executable, str(CONTENT / "build_wiki.py"), "--index", str(index)]
    command += ["--dictionary", str(DICTIONARY), "--dump", str(tmp_path / "dump.xml")]
    command += ["--titles", str(tmp_path / "titles.txt")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr.startswith("build_wiki: index line 1: expected")
    assert process.stderr.count("\n") == 1
