"""No circle of modules inside a crate of the Rust workspace.

Modules that lie side by side depend on each other in one direction, at each level of folders; a
module and the file of its folder may know each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.paths import ROOT

AGENTS = ROOT / "agents"
CRATES = sorted(
    path.parent.name for path in AGENTS.glob("*/Cargo.toml") if path.parent.name != "fuzz"
)
_NO_CODE = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"')
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{")
_USE = re.compile(r"\buse\s+([^;]+);")
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
Module = tuple[str, ...]


def _modules(src: Path) -> dict[Module, Path]:
    """The files of a crate by their modules; the root is ()."""
    modules: dict[Module, Path] = {}
    for path in sorted(src.rglob("*.rs")):
        parts = path.relative_to(src).with_suffix("").parts
        if parts[0] == "bin" or parts[-1].endswith("tests"):
            continue
        if parts[-1] == "mod":
            parts = parts[:-1]
        modules[() if parts == ("lib",) else parts] = path
    return modules


def _expanded(tree: str) -> list[str]:
    """The paths of a `use` with braces."""
    before, brace, rest = tree.strip().partition("{")
    if not brace:
        return [before.split(" as ")[0].strip()]
    paths, depth, part = [], 0, ""
    for letter in rest[: rest.rindex("}")] + ",":
        if letter == "," and depth == 0:
            paths += [before.strip() + path for path in _expanded(part) if part.strip()]
            part = ""
        else:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            part += letter
    return paths


def _paths(text: str) -> Iterator[str]:
    text = _NO_CODE.sub("", text)
    if tests := _TESTS.search(text):
        text = text[: tests.start()]
    for use in _USE.findall(text):
        yield from _expanded(" ".join(use.split()))
    yield from _PATH.findall(_USE.sub("", text))


def _target(path: str, module: Module, modules: dict[Module, Path]) -> Module | None:
    """The module that a path of `module` leads to, as far as it is one of the crate's."""
    names = path.split("::")
    base: Module = module
    if names[0] == "crate":
        base, names = (), names[1:]
    elif names[0] not in ("super", "self") and (*module, names[0]) not in modules:
        return None
    while names and names[0] in ("super", "self"):
        base = base[:-1] if names[0] == "super" else base
        names = names[1:]
    for name in names:
        if (*base, name) not in modules:
            break
        base = (*base, name)
    return base


def circles(src: Path) -> list[str]:
    """The circles of modules side by side, each as a sentence."""
    modules = _modules(src)
    levels: dict[Module, dict[str, set[str]]] = {}
    for module, file in modules.items():
        for path in _paths(file.read_text(encoding="utf-8")):
            target = _target(path, module, modules)
            if target is None:
                continue
            common = 0
            while common < min(len(module), len(target)) and module[common] == target[common]:
                common += 1
            if common < len(module) and common < len(target):
                level = levels.setdefault(module[:common], {})
                level.setdefault(module[common], set()).add(target[common])
    return [
        f"{'::'.join((*level, ''))}{{{', '.join(sorted(circle))}}}"
        for level, uses in levels.items()
        for circle in _circles(uses)
    ]


def _circles(uses: dict[str, set[str]]) -> set[frozenset[str]]:
    """Modules that reach each other."""
    reached = {name: _reached(name, uses) for name in uses}
    return {
        frozenset(peer for peer in reached[name] if name in reached.get(peer, ()))
        for name in uses
        if name in reached[name]
    }


def _reached(name: str, uses: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    queue = [name]
    while queue:
        for neighbour in uses.get(queue.pop(), ()):
            if neighbour not in reached:
                reached.add(neighbour)
                queue.append(neighbour)
    return reached


@pytest.mark.parametrize("crate", CRATES)
def test_no_modules_of_a_crate_use_each_other_in_a_circle(crate: str) -> None:
    assert circles(AGENTS / crate / "src") == []


def test_a_circle_is_found_through_folders_braces_and_paths(tmp_path: Path) -> None:
    for name, text in {
        "lib.rs": "mod a; mod b; mod c; mod leaf;",
        "a.rs": "use crate::{leaf, b::{inner::Thing as Other, More}};",
        "b/mod.rs": "pub mod inner; use super::leaf;",
        "b/inner.rs": "fn f() { crate::c::g() }",
        "c.rs": "use super::a; // use crate::leaf;",
        "leaf.rs": "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles(tmp_path) == ["{a, b, c}"]
    (tmp_path / "c.rs").write_text("// use crate::a;")
    assert circles(tmp_path) == []


def test_a_module_and_its_folder_s_file_may_know_each_other(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b.rs").write_text("mod one; mod two; use self::one::One;")
    (tmp_path / "b" / "one.rs").write_text("use super::two;")
    (tmp_path / "b" / "two.rs").write_text("use super::B;")
    assert circles(tmp_path) == []
    (tmp_path / "b" / "two.rs").write_text("use super::one::One;")
    assert circles(tmp_path) == ["b::{one, two}"]
