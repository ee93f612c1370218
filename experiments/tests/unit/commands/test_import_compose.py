"""`sparecraft import compose`: what it prints, asks and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from experiments.commands import import_compose
from experiments.importers.compose import Answer
from experiments.importers.compose import import_compose as importer
from experiments.importers.compose.service import Service
from experiments.tests.called import answer, refusal

ODD = "services:\n  odd:\n    image: example.org/odd\n    privileged: true\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "compose.yaml"
    path.write_text(ODD)
    return path


def test_a_program_reads_tiers_entries_and_what_has_no_effect(file: Path, tmp_path: Path) -> None:
    to = tmp_path / "tst-odd"
    report = answer("import", "compose", str(file), "--to", str(to), "--speaks", "odd=http:81")
    assert (report["design"], report["entries"]) == (str(to), ["odd"])
    assert report["tiers"]["odd"]["port"] == 81
    assert f"{file}:4: services.odd.privileged" in [part["place"] for part in report["unhonoured"]]


@pytest.mark.parametrize("said", ["odd", "odd=", "odd=smtp", "odd=http:0", "odd=http:x"])
def test_an_answer_that_is_none_is_refused(file: Path, tmp_path: Path, said: str) -> None:
    to = str(tmp_path / "tst-odd")
    error = refusal("import", "compose", str(file), "--to", to, "--speaks", said)
    assert error.place == f"--speaks {said}"


def test_on_a_terminal_it_asks_for_what_nothing_tells(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []

    def answer(question: str, **_: object) -> str:
        questions.append(question)
        return "http:8123"

    monkeypatch.setattr(typer, "prompt", answer)
    file.write_text(f"{ODD}  web:\n    image: nginx\n")
    design = importer(file, tmp_path / "tst-odd", "tst-odd", import_compose._ask, {})
    assert {tier.name: tier.port for tier in design.tiers} == {"odd": 8123, "web": 80}
    assert len(questions) == 1


def test_a_service_that_nobody_answers_for_is_left_out(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(service: Service) -> Answer | None:
        monkeypatch.setattr(typer, "prompt", lambda *_, **__: "")
        return import_compose._ask(service)

    file.write_text(f"{ODD}  web:\n    image: nginx\n")
    design = importer(file, tmp_path / "tst-odd", "tst-odd", nothing, {})
    assert [tier.name for tier in design.tiers] == ["web"]
