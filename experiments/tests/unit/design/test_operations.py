"""`[[load.operations]]` and `[[load.sessions]]`: what is read, and what is refused with its key."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from core.errors import InputError
from experiments.design import Design, load_design, operation_set
from experiments.design.experiment import OPERATIONS, Experiment, Load
from experiments.design.notes import operation_notes
from experiments.design.operation_set import files_of
from experiments.design.operations import parse_json_path
from experiments.design.text import experiment_text
from experiments.design.workloads import Population, population_of, reads_of
from experiments.paths import ROOT
from experiments.tests.operations_fixture import BUY, LOG_IN, PAGE, SESSION, USERS, read
from experiments.tests.spec_fixture import design, write


def refused(directory: Path, *tables: str, keys: str = "", csv: str = "user\nann\n") -> str:
    with pytest.raises(InputError) as error:
        read(directory, *tables, keys=keys, csv=csv)
    return error.value.place.rsplit(" ", 1)[1]


def population(read_design: Design) -> Population:
    return population_of(read_design.workloads[OPERATIONS])


def test_operations_are_the_workload_of_a_design_without_python(tmp_path: Path) -> None:
    shop_design = read(tmp_path, PAGE, LOG_IN, BUY, SESSION, keys=USERS)
    assert shop_design.experiment.load.user == OPERATIONS
    demand = population(shop_design)
    assert [operation.name for operation in demand.operations] == ["page", "log in", "buy"]
    assert demand.weights == (1.0, 0.0, 0.0), "a step of a session is not asked by itself"
    assert [step.operation for step in demand.sessions[0].steps] == [1, 2]
    assert demand.sessions[0].steps[1].think_s_max == 2.0
    assert demand.table is not None
    assert demand.table.rows == (("ann",), ("bob",))
    buy = demand.operations[2].http
    assert buy is not None
    assert buy.status == ((201, 201), (300, 399), (404, 410))


def test_operations_without_checks_are_noted(tmp_path: Path) -> None:
    load = read(tmp_path, PAGE, LOG_IN, BUY, SESSION, keys=USERS).experiment.load
    (note,) = operation_notes(load)
    assert note.code == "answers-unchecked"
    assert "page" in note.text
    assert "log in" not in note.text, "a value that it takes is a check"
    page_with_check = PAGE + 'checks = [{ text = "a" }]\n'
    assert not list(operation_notes(read(tmp_path / "checked", page_with_check).experiment.load))


def test_only_gets_are_reads_that_an_arbiter_may_copy(tmp_path: Path) -> None:
    shop_design = read(tmp_path, PAGE, LOG_IN, BUY, SESSION, keys=USERS)
    assert reads_of(shop_design.workloads, OPERATIONS) == pytest.approx(1 / 3)


def test_a_design_with_operations_is_read_back_from_its_own_text(tmp_path: Path) -> None:
    first = read(tmp_path / "a", PAGE, LOG_IN, BUY, SESSION, keys=USERS).experiment
    text = experiment_text(first, "again")
    assert text.count("[[load.operations]]") == 3
    write(tmp_path / "b", toml=text)
    (tmp_path / "b/users.csv").write_text("user\nann\n")
    assert load_design(tmp_path / "b").experiment == first
    assert Experiment.model_validate(first.model_dump(mode="json")) == first


def test_its_files_are_named(tmp_path: Path) -> None:
    upload = '[[load.operations]]\nname = "up"\npath = "/"\nbody = { file = "users.csv" }\n'
    shop_design = read(tmp_path, PAGE, upload, keys=USERS)
    assert files_of(shop_design.experiment.load) == ("users.csv",)
    http = population(shop_design).operations[1].http
    assert http is not None
    assert http.body is not None
    assert [part.text for part in http.body] == ["user\nann\nbob\n"]


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("", "load.user"),
        (PAGE + 'x = 1\n', "load.operations.0.x"),
        (PAGE.replace('"/"', '"page"'), "load.operations.0.path"),
        (PAGE.replace('"/"', '"/a b"'), "load.operations.0.path"),
        (PAGE.replace('"/"', '"/${a b}"'), "load.operations.0.path"),
        (PAGE.replace('"/"', '"/${item}"'), "load.operations.0"),
        (PAGE + 'method = "BREW"\n', "load.operations.0.method"),
        (PAGE + 'expect = "6xx"\n', "load.operations.0.expect"),
        (PAGE + "expect = []\n", "load.operations.0.expect"),
        (PAGE + 'expect = "299-200"\n', "load.operations.0.expect"),
        (PAGE + 'headers = { "a b" = "" }\n', "load.operations.0.headers"),
        (PAGE + 'headers = { Content-Length = "1" }\n', "load.operations.0.headers"),
        (PAGE + 'headers = { A = "1\\n2" }\n', "load.operations.0.headers.A"),
        (PAGE.replace('"/"', '"/a#b"'), "load.operations.0.path"),
        (PAGE + 'body = { json = { a = [nan] } }\n', "load.operations.0.body.json"),
        (PAGE + "checks = [{ bytes_min = 9, bytes_max = 5 }]\n",
         "load.operations.0.checks.0.bytes_max"),
        (PAGE + 'method = "HEAD"\nchecks = [{ text = "a" }]\n', "load.operations.0.checks"),
        (PAGE + 'body = { text = "a", form = {} }\n', "load.operations.0.body"),
        (PAGE + 'body = { file = "../x" }\n', "load.operations.0.body.file"),
        (PAGE + 'body = { file = "none" }\n', "load.operations.0.body.file"),
        (PAGE + 'checks = [{ text = "a", header = "b" }]\n', "load.operations.0.checks.0"),
        (PAGE + 'checks = [{ equals = "a" }]\n', "load.operations.0.checks.0"),
        (PAGE + 'checks = [{ json_path = "a..b" }]\n', "load.operations.0.checks.0.json_path"),
        (PAGE + "take = { t = {} }\n", "load.operations.0.take.t"),
        (PAGE + "weight = 0\n", "load.operations"),
        (PAGE + PAGE, "load.operations.1.name"),
        (PAGE + 'entry = "db"\n', "load.operations.0.entry"),
        (PAGE + BUY + SESSION, "load.sessions.0.steps.0.operation"),
        (LOG_IN + BUY + SESSION.replace("[1.0, 2.0]", "[2.0, 1.0]"),
         "load.sessions.0.steps.1.think_s"),
        (LOG_IN + BUY.replace("${token}", "${ticket}") + SESSION,
         "load.sessions.0.steps.1.operation"),
        # A limit of what nobody asks.
        (PAGE + "[slo.operations.gone]\np95_ms = 1.0\n", "slo.operations.gone"),
        (PAGE + "[slo.sessions.page]\np95_ms = 1.0\n", "slo.sessions.page"),
        (PAGE + "[slo.operations.page]\n", "slo.operations.page"),
        (PAGE + "[slo.operations.page]\np95_ms = 2.0\np99_ms = 1.0\n",
         "slo.operations.page.p99_ms"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_with_its_key(tmp_path: Path, table: str, key: str) -> None:
    assert refused(tmp_path, table, keys=USERS if "login" in table else "") == key
    assert OPERATIONS not in design(tmp_path).workloads


@pytest.mark.parametrize(
    ("keys", "csv", "key"),
    [
        (USERS + "workers = 2\n", "user\nann\n", "load.workers"),  # one sends a session
        *((USERS, csv, "load.parameters") for csv in (
            "", "user\n", "us er\nann\n", "user,user\na,b\n", "user\na,b\n", 'user\n"a\nb"\n')),
    ],
)  # fmt: skip
def test_a_session_that_cannot_be_asked_is_refused_with_its_key(
    tmp_path: Path, keys: str, csv: str, key: str
) -> None:
    assert refused(tmp_path, LOG_IN + BUY + SESSION, keys=keys, csv=csv) == key
    assert refused(tmp_path, PAGE, keys='user = "wiki-reader"\n') == "load.user"


def test_a_body_of_50_mb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = PAGE + 'body = { file = "large" }\n'
    tmp_path.mkdir(exist_ok=True)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(50_000_000)
    assert refused(tmp_path, large) == "load.operations.0.body.file"
    monkeypatch.setattr(operation_set, "BODY_BYTES_MAX", 1000)  # a text of megabytes takes seconds
    long = PAGE + f'body = {{ text = "{"x" * 1001}" }}\n'
    assert refused(tmp_path, long) == "load.operations.0.body"


@pytest.mark.parametrize(
    ("text", "steps"),
    [("", ()), ("$", ()), ("user.id", ("user", "id")), ("$.items[0].id", ("items", 0, "id")),
     ("[2][0]", (2, 0)), ("a-b.c d", ("a-b", "c d")), (".a", None), ("a.", None), ("a[b]", None),
     ("a[", None)],
)  # fmt: skip
def test_a_json_path_is_keys_and_places(text: str, steps: tuple[str | int, ...] | None) -> None:
    assert parse_json_path(text) == steps


@pytest.mark.parametrize("page", ["docs/your-own-service.md", "experiments/load/README.md"])
def test_the_operations_that_documents_show_can_be_asked(page: str) -> None:
    blocks = re.findall(r"^```toml[^\n]*\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
    loads = [tomllib.loads(block)["load"] for block in blocks if "[[load.operations]]" in block]
    assert loads
    for load in loads:
        defaults = {"arrivals": "poisson", "rate_per_s": 1.0}
        assert Load.model_validate({**defaults, **load}).operations
