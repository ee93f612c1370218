"""Turns dictionary entries into wiki text: headword box, senses, quotations, links, categories.

The dictionary marks cross-references as `{word}`, pronunciation letters as `[=e]`, sources as
`[1913 Webster]`, quotations by deep indentation and authors by `--Milton.`; wiki text has links,
Unicode letters and templates for these. A link is made only to a page that exists in the same wiki.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gcide import Entry, title_of

PARTS_OF_SPEECH = {
    "n. pl.": "Plural nouns",
    "n.": "Nouns",
    "v. t. & i.": "Verbs",
    "v. t.": "Transitive verbs",
    "v. i.": "Intransitive verbs",
    "v.": "Verbs",
    "a.": "Adjectives",
    "adj.": "Adjectives",
    "adv.": "Adverbs",
    "prep.": "Prepositions",
    "conj.": "Conjunctions",
    "interj.": "Interjections",
    "pron.": "Pronouns",
}
LINKS_PER_PAGE_MAX = 40
ENDINGS = ("", "s", "es", "d", "ed", "ing", "ly")
HEAD = re.compile(
    r"^(?P<word>[^\\]+?) \\(?P<accents>[^\\]*)\\,?\s*"
    r"(?:\((?P<spoken>(?:[^()]|\([^()]*\))*)\),?\s*)?"
    r"(?P<part>" + "|".join(re.escape(part) for part in PARTS_OF_SPEECH) + r")?[;,]?\s*"
)
BRACKETED = re.compile(r"\[(?P<inner>(?:[^\[\]]|\[[^\[\]]*\])*)\]\s*")
SOURCE = re.compile(r"\s*\[(?P<source>[^\[\]]*(?:Webster|WordNet|Century|PJC)[^\[\]]*)\]")
AUTHOR = re.compile(r"\s*--\s?(?P<author>[A-Z][^-]{1,60})$")
SENSE = re.compile(r"^(?:\((?P<letter>[a-z])\)|(?P<number>\d+)\.)\s+")
MARKUP = re.compile(r"\{(?P<reference>[^{}]*)\}|(?P<word>\b[a-z]{5,}\b)")

LETTER_MARKS = {"=": "\u0304", "^": "\u0302", '"': "\u0308", "`": "\u0300", "'": "\u0301"}
LETTER_MARKS |= {"~": "\u0303", ".": "\u0307", "u": "\u0306"}
TRAILING_MARKS = {
    "^": "\u0306",
    "mac": "\u0304",
    "um": "\u0308",
    "cir": "\u0302",
    "acute": "\u0301",
}
TRAILING_MARKS |= {"grave": "\u0300", "circ": "\u0302", "cced": "\u0327", "il": "\u0303"}
LETTER = re.compile(
    r"\[(?:(?P<before>[=^\"`'~.])(?P<a>[a-z]{1,2})|(?P<b>[a-z])(?P<after>\^|[a-z]+))\]"
)
WIKI_ESCAPES = {
    "&": "&amp;", "<": "&lt;", ">": "&gt;", "[": "&#91;", "]": "&#93;", "{": "&#123;",
    "}": "&#125;", "|": "&#124;", "=": "&#61;", "'": "&#39;", "~": "&#126;", "_": "&#95;",
}  # fmt: skip
ESCAPE_TABLE = str.maketrans(WIKI_ESCAPES)

TEMPLATES = {
    "Headword": (
        '<div class="headword" style="float:right; border:1px solid #a2a9b1; padding:0.5em">\n'
        "'''{{{1}}}'''{{#if:{{{spoken|}}}|<br />Pronounced {{Small|{{{spoken}}}}}}}"
        "{{#if:{{{part|}}}|<br />[[:Category:{{{category}}}|{{{part}}}]]}}"
        "{{#if:{{{forms|}}}|<br />Forms: {{Small|{{{forms}}}}}}}\n</div>"
        "{{#if:{{{origin|}}}|''Origin'': {{{origin}}}}}"
    ),
    "Source": "{{Small|&#91;{{#switch:{{{1}}}|1913 Webster=Webster's Revised Unabridged, 1913"
    "|WordNet 1.5=WordNet 1.5 (Princeton University)|#default={{{1}}}}}&#93;}}",
    "Quote": "<blockquote>''{{{1}}}''{{#if:{{{2|}}}|<br />{{Small|{{{2}}}}}}}</blockquote>",
    "Synonyms": "<div class=\"synonyms\">'''Synonyms:''' {{{1}}}</div>",
    "Small": '<span style="font-size:85%">{{{1}}}</span>',
    "About": "----\n{{Small|From the GNU Collaborative International Dictionary of English, "
    "letter {{{1}}}. See [[:Category:{{{1}}}]].}}",
}


@dataclass
class Linker:
    """Makes links to the pages of one wiki, from one of them, each page at most once."""

    titles: Mapping[str, object]
    own_title: str
    linked: set[str]

    def reference(self, text: str) -> str:
        """A cross-reference: a link where the page exists, bold otherwise."""
        plain = re.sub(r'["*`]', "", text)
        title = title_of(plain.strip())
        if title in self.titles and title != self.own_title:
            self.linked.add(title)
            return f"[[{title}|{escape(plain)}]]"
        return f"'''{escape(plain)}'''"

    def word(self, text: str) -> str:
        """A word of a definition: a link at its first occurrence if a page of that name exists."""
        for ending in ENDINGS:
            title = title_of(text.removesuffix(ending))
            if title in self.titles and title != self.own_title:
                if title in self.linked or len(self.linked) >= LINKS_PER_PAGE_MAX:
                    return text
                self.linked.add(title)
                return f"[[{title}|{text}]]"
        return text


def escape(text: str) -> str:
    """Text in which no character means anything to the wiki."""
    return text.translate(ESCAPE_TABLE)


def unicode_letters(text: str) -> str:
    """The dictionary's ASCII letters, `[=e]` or `[eacute]`, as Unicode where they are known."""

    def letter(match: re.Match[str]) -> str:
        if match["before"]:
            return (
                unicodedata.normalize("NFC", match["a"][0] + LETTER_MARKS[match["before"]])
                + (match["a"][1:])
            )
        mark = TRAILING_MARKS.get(match["after"])
        if mark is None:
            return {"[ae]": "æ", "[oe]": "œ", "[th]": "þ"}.get(match[0], match[0])
        return unicodedata.normalize("NFC", match["b"] + mark)

    return LETTER.sub(letter, text)


def linked_text(text: str, linker: Linker, every_word: bool) -> str:
    """Escaped wiki text of a piece of dictionary text, with links."""
    pieces, position = [], 0
    for match in MARKUP.finditer(text):
        pieces.append(escape(text[position : match.start()]))
        position = match.end()
        if match["reference"] is not None:
            pieces.append(linker.reference(match["reference"]))
        else:
            pieces.append(linker.word(match["word"]) if every_word else match["word"])
    pieces.append(escape(text[position:]))
    return "".join(pieces)


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of an entry: indentation of the first line, text on one line."""
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        first = next((line for line in lines if line.strip()), "")
        joined = " ".join(line.strip() for line in lines).strip()
        if joined:
            yield len(first) - len(first.lstrip()), unicode_letters(joined)


def head_and_rest(paragraph: str, linker: Linker) -> tuple[str, str, str]:
    """The headword box, the entry's category, and what follows the head in the first paragraph."""
    match = HEAD.match(paragraph)
    if match is None:
        return "", "Other words", paragraph
    rest, forms, origin = paragraph[match.end() :], "", ""
    spoken, accents = match["spoken"] or "", match["accents"]
    plural = re.match(r"(?P<forms>(?:E\. )?pl\. \{[^{}]*\}(?:, \{[^{}]*\})*)[^\[\w]*", rest)
    if plural:
        forms, rest = plural["forms"], rest[plural.end() :]
    while (bracket := BRACKETED.match(rest)) and not SOURCE.match(rest):
        inner = bracket["inner"]
        if inner.startswith(("imp.", "pl.", "Compar.", "p. p.")):
            forms = inner
        else:
            origin = inner
        rest = rest[bracket.end() :].lstrip()
    part = match["part"] or ""
    category = PARTS_OF_SPEECH.get(part, "Other words")
    values = {
        # "(-ment)" gives only the last syllable: the accented word says more.
        "spoken": escape(accents if spoken.startswith("-") or not spoken else spoken),
        "part": part,
        "category": category,
        "forms": linked_text(forms, linker, every_word=False),
        "origin": linked_text(origin, linker, every_word=False),
    }
    box = "".join(f"|{name}={value}" for name, value in values.items() if value)
    return f"{{{{Headword|{escape(match['word'])}{box}}}}}\n", category, rest


def body_paragraph(indent: int, text: str, linker: Linker) -> str:
    """One paragraph after the head: a sense, a quotation, synonyms, a note."""
    named = dict.fromkeys(match["source"] for match in SOURCE.finditer(text))
    sources = "".join(f" {{{{Source|{escape(source)}}}}}" for source in named)
    text = SOURCE.sub("", text).strip()
    if not text:
        return sources.lstrip() + "\n"  # a leading blank would make it preformatted
    if indent >= 9 and not SENSE.match(text):
        author = AUTHOR.search(text)
        words = escape(AUTHOR.sub("", text))
        return f"{{{{Quote|1={words}|2={escape(author['author']) if author else ''}}}}}{sources}\n"
    if text.startswith("Syn:"):
        names = linked_text(text.removeprefix("Syn:").strip(), linker, every_word=True)
        return f"{{{{Synonyms|1={names}}}}}{sources}\n"
    sense = SENSE.match(text)
    # Numbers are written out: a wiki list would start anew after each quotation.
    marker = f"'''{sense[0].strip()}''' " if sense else ""
    words = linked_text(text[sense.end() :] if sense else text, linker, every_word=True)
    return f"{marker}{words}{sources}\n"


def page_text(title: str, entries: Sequence[Entry], titles: Mapping[str, object]) -> str:
    """The wiki text of one page from all entries of its title."""
    linker = Linker(titles, title, set())
    pieces, categories = [], {title[0]}
    for number, entry in enumerate(entries, start=1):
        (_, first), *others = paragraphs(entry.text)
        box, category, rest = head_and_rest(first, linker)
        categories.add(category)
        heading = f"== {escape(entry.headword)} {number} ==\n" if len(entries) > 1 else ""
        pieces.append(heading + box)
        if rest.strip():
            pieces.append(body_paragraph(3, rest, linker))
        pieces.extend(body_paragraph(indent, text, linker) for indent, text in others)
    pieces.append(f"{{{{About|{title[0]}}}}}")
    pieces.extend(f"[[Category:{category}]]" for category in sorted(categories))
    return "\n".join(pieces) + "\n"
