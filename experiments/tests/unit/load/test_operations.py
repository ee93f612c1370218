"""Arrivals of `[[load.operations]]` and sessions; an operation's bytes and verdict."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.design.experiment import SentLoad
from experiments.design.http_request import AnswerCheck, HttpRequest, JsonPath, Part, TakenValue
from experiments.design.workloads import Operation, Population, Session, SessionStep, Table
from experiments.load.drawn import Timing, draw, requests_per_arrival
from experiments.load.http_operation import Expected, VirtualUser, bytes_of

GET = HttpRequest("GET", (Part("/"),))
LOAD = SentLoad(user="operations", arrivals="poisson", rate_per_s=50.0)
THREE = Population(
    tuple(Operation(name, "/", "", "web", GET) for name in "abc"),
    0.0,
    weights=(3.0, 1.0, 0.0),
    sessions=(
        Session(
            "shopper", 4.0, (SessionStep(2), SessionStep(1, 0.5, 2.0), SessionStep(2, 0.1, 0.1))
        ),
    ),
    table=Table(("user",), tuple((str(number),) for number in range(1000))),
)
LENGTH_S = 400.0


def test_the_rate_is_of_requests_and_weights_are_of_arrivals() -> None:
    assert requests_per_arrival(THREE) == 2.0
    drawn = draw(THREE, Timing(LOAD, LENGTH_S, seed=1))
    assert len(drawn.offsets_s) == pytest.approx(50.0 * LENGTH_S, rel=0.05)
    alone = [o for o, s in zip(drawn.operation_of, drawn.session_of, strict=True) if s < 0]
    begun = sum(a < 0 <= s for a, s in zip(drawn.after, drawn.session_of, strict=True))
    assert alone.count(0) / begun == pytest.approx(3 / 4, rel=0.1)
    assert alone.count(1) / begun == pytest.approx(1 / 4, rel=0.15)
    assert 2 not in alone


def test_each_step_waits_for_the_one_before_it_and_has_its_row() -> None:
    drawn = draw(THREE, Timing(LOAD, LENGTH_S, seed=2))
    assert list(drawn.offsets_s) == sorted(drawn.offsets_s)
    assert drawn.offsets_s[-1] < LENGTH_S
    steps = [(index, before) for index, before in enumerate(drawn.after) if before >= 0]
    assert steps
    for index, before in steps:
        assert before < index
        assert drawn.session_of[before] == drawn.session_of[index] == 0
        assert drawn.row_of[before] == drawn.row_of[index]
        apart_s = drawn.offsets_s[index] - drawn.offsets_s[before]
        assert apart_s == pytest.approx(drawn.think_s[index])
    waits = np.array([drawn.think_s[index] for index, _ in steps if drawn.operation_of[index] == 1])
    assert 0.5 <= waits.min() < 0.6 < 1.9 < waits.max() <= 2.0
    assert len(set(drawn.row_of)) > 900


def test_equal_seeds_ask_the_same_and_a_longer_block_begins_alike() -> None:
    assert draw(THREE, Timing(LOAD, 10.0, seed=3)) == draw(THREE, Timing(LOAD, 10.0, seed=3))
    assert draw(THREE, Timing(LOAD, 10.0, seed=3)) != draw(THREE, Timing(LOAD, 10.0, seed=4))
    alone = replace(THREE, sessions=())
    longer = draw(alone, Timing(LOAD, 20.0, seed=3))
    shorter = draw(alone, Timing(LOAD, 10.0, seed=3))
    assert longer.operation_of[: len(shorter.operation_of)] == shorter.operation_of


def test_a_value_is_put_into_the_encoding_of_its_place() -> None:
    request = HttpRequest(
        "POST",
        (Part("/u/"), Part(value="v", encoding="path")),
        (("X-User", (Part(value="v"),)),),
        (Part('{"a":"'), Part(value="v", encoding="json"), Part('"}')),
    )
    request_bytes = bytes_of(request, "h:81", VirtualUser({"v": 'a/"ü'}, {"sid": "1", "b": "2"}))
    head, _, body = request_bytes.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /u/a%2F%22%C3%BC HTTP/1.1"
    assert {b"Host: h:81", b"Cookie: sid=1; b=2", 'X-User: a/"ü'.encode()} < set(lines)
    assert b"Content-Length: %d" % len(body) in lines
    assert json.loads(body) == {"a": 'a/"ü'}


def test_a_stated_header_goes_before_the_usual_one() -> None:
    request = replace(GET, headers=(("host", (Part("shop.example"),)),))
    request_bytes = bytes_of(request, "h", VirtualUser({}))
    assert request_bytes.lower().count(b"host:") == 1
    assert b"host: shop.example\r\n" in request_bytes
    assert b"content-length" not in request_bytes.lower()


def path(*steps: str | int) -> JsonPath:
    return steps


BODY = b'{"ok": true, "user": {"id": 7, "name": "Ann"}, "items": [{"id": 1.5}], "none": null}'


@pytest.mark.parametrize(
    ("check", "passes"),
    [
        (AnswerCheck(text='"Ann"'), True),
        (AnswerCheck(text="Bob"), False),
        (AnswerCheck(json_path=path("user", "id"), equals=7), True),
        (AnswerCheck(json_path=path("user", "id"), equals=7.0), True),
        (AnswerCheck(json_path=path("user", "id"), equals="7"), False),
        (AnswerCheck(json_path=path("ok"), equals=True), True),
        (AnswerCheck(json_path=path("ok"), equals=1), False),
        (AnswerCheck(json_path=path("items", 0, "id"), equals=1.5), True),
        (AnswerCheck(json_path=path("items", 1, "id")), False),
        (AnswerCheck(json_path=path("items", "id")), False),
        (AnswerCheck(json_path=path("none")), True),
        (AnswerCheck(json_path=path("user", "name"), contains="nn"), True),
        (AnswerCheck(json_path=path("user", "id"), contains="7"), False),
        (AnswerCheck(header="content-type", equals="text/json"), True),
        (AnswerCheck(header="Content-Type", contains="json"), True),
        (AnswerCheck(header="Location"), False),
        (AnswerCheck(bytes_min=len(BODY), bytes_max=len(BODY)), True),
        (AnswerCheck(bytes_max=len(BODY) - 1), False),
        (AnswerCheck(bytes_min=len(BODY) + 1), False),
    ],
)
def test_an_answer_is_good_if_its_checks_hold(check: AnswerCheck, passes: bool) -> None:
    expected = Expected(replace(GET, checks=(check,)), VirtualUser({}))
    outcome, reason = expected.judge(200, [("Content-Type", "text/json")], BODY)
    assert (outcome, reason) == (("ok", "") if passes else ("bad_content", "check 1"))


def test_a_status_that_is_not_expected_is_bad_whatever_the_content() -> None:
    expected = Expected(replace(GET, status=((201, 201), (300, 399))), VirtualUser({}))
    verdicts = [expected.judge(status, [], b"")[0] for status in (200, 201, 302, 404)]
    assert verdicts == ["bad_status", "ok", "ok", "bad_status"]


def test_an_answer_without_the_token_that_later_steps_need_is_bad() -> None:
    user = VirtualUser({})
    take = (TakenValue("token", json_path=("token",)), TakenValue("etag", header="ETag"))
    expected = Expected(replace(GET, take=take), user)
    assert expected.judge(200, [("etag", '"1"')], b'{"token": 12}') == ("ok", "")
    assert user.values == {"token": "12", "etag": '"1"'}
    assert expected.judge(200, [("etag", '"1"')], b"{}") == ("bad_content", "no token")
    assert expected.judge(200, [], b'{"token": "a"}') == ("bad_content", "no etag")
    assert expected.judge(200, [], b'{"token": "a\\nb"}') == ("bad_content", "no token")
    no_text = b'{"token": "\\ud800"}'
    assert expected.judge(200, [], no_text) == ("bad_content", "no token")


def test_cookies_are_kept_changed_and_deleted() -> None:
    user = VirtualUser({})
    expected = Expected(GET, user)
    expected.judge(200, [("Set-Cookie", "a=1; Path=/; HttpOnly"), ("set-cookie", "b=x=y")], b"")
    assert user.cookies == {"a": "1", "b": "x=y"}
    past = "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"
    expected.judge(500, [("Set-Cookie", "a=2; Max-Age=60"), ("Set-Cookie", past)], b"")
    assert user.cookies == {"a": "2"}
    expected.judge(200, [("Set-Cookie", "a=2; Max-Age=0"), ("Set-Cookie", "nonsense")], b"")
    assert user.cookies == {}
