"""`ci/coverage rust`: lines of a crate's product, and not of its tests."""

from __future__ import annotations

from pathlib import Path

from ci.crate_coverage import lines_by_crate


def test_lines_of_inline_tests_and_of_other_code_are_not_counted(tmp_path: Path) -> None:
    source = tmp_path / "agents/wire/src"
    source.mkdir(parents=True)
    (source / "lib.rs").write_text("fn a() {}\nfn b() {}\n#[cfg(test)]\nmod tests {\n}\n")
    (source / "lib_tests.rs").write_text("fn c() {}\n")
    records = []
    for path in (source / "lib.rs", source / "lib_tests.rs", tmp_path / "agents/wire/tests/a.rs",
                 Path("/elsewhere/agents/wire/src/lib.rs")):  # fmt: skip
        records += [f"SF:{path}", "DA:1,7", "DA:2,0", "DA:4,9", "end_of_record"]
    assert lines_by_crate(records, tmp_path) == {"wire": (2, 1)}
