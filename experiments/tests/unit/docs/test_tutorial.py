"""docs/your-own-service.md, followed to the letter: its files are written and its commands are run,
in their order, in an empty folder."""

from __future__ import annotations

from experiments.design import load_design
from experiments.tests.tutorial import BLOCK, EXPERIMENT, GREETER, PAGE, Reader


def test_its_files_and_commands_make_a_design_that_the_check_accepts(reader: Reader) -> None:
    assert reader.commands >= 6
    page = PAGE.read_text()
    samples = page.count("```toml sample\n")  # blocks that are read and not followed
    assert page.count("```") == 2 * (len(BLOCK.findall(page)) + samples)
    code, output = reader.do(f"sparecraft check {EXPERIMENT}")
    assert code == 0, output


def test_its_compose_file_becomes_a_design_that_the_check_accepts(reader: Reader) -> None:
    code, output = reader.do(f"sparecraft check {GREETER}")
    assert code == 0, output
    design = load_design(reader.folder / GREETER)
    assert design.fleet.tiers["web"].calls == ("cache",)
    assert {name: design.roles[name].port for name in design.fleet.tiers} == {
        "web": 8000,
        "cache": 11211,
    }
