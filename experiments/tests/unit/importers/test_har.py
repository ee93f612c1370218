"""HAR files as operations: popularity, values, secrets, and files that are none."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from experiments.commands.check import check_design
from experiments.design import load_design
from experiments.importers import har
from experiments.importers.har import read_har
from experiments.importers.load_section import operations_toml, replace_operations
from experiments.importers.traffic import Imported, operations_of
from experiments.tests.called import answer, call


def entry(url: str, method: str = "GET", status: int = 200, **request: Any) -> dict[str, Any]:
    return {
        "startedDateTime": "2026-11-28T12:00:00.000Z",
        "request": {"method": method, "url": url, "headers": [], **request},
        "response": {"status": status},
    }


def saved(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / "session.har"
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}), encoding="utf-8")
    return path


def imported(folder: Path, *entries: dict[str, Any], host: str | None = None) -> Imported:
    return operations_of(read_har(saved(folder, *entries), host)[0])


def test_requests_that_differ_in_an_identifier_are_one_operation_with_a_column(
    tmp_path: Path,
) -> None:
    result = imported(tmp_path, *[entry("https://shop/items/41")] * 3,
                      entry("https://shop/items/42"), entry("https://shop/"))  # fmt: skip
    assert [
        (operation.name, operation.weight, operation.path) for operation in result.operations
    ] == [
        ("GET /items/{}", 4, "/items/${items}"),
        ("GET /", 1, "/"),
    ]
    assert sorted(result.columns["items"]) == ["41", "41", "41", "42"]


def test_secrets_are_removed_and_counted(tmp_path: Path) -> None:
    secret = "hunter2"
    header_values = {"Authorization": f"Bearer {secret}", "Cookie": f"sid={secret}",
                     "Accept": "application/json"}  # fmt: skip
    headers = [{"name": name, "value": value} for name, value in header_values.items()]
    body = json.dumps({"user": "ada", "nested": [{"password": secret}]})
    form = {"mimeType": "application/x-www-form-urlencoded", "text": f"user=ada&pin={secret}"}
    result = imported(
        tmp_path,
        entry(f"https://ada:{secret}@shop/login?token={secret}&page=1", "POST", headers=headers,
              postData={"mimeType": "application/json", "text": body}),
        entry("https://ada:x@shop/form", "POST", postData=form),
        host="shop",
    )  # fmt: skip
    assert secret not in operations_toml(result.operations)
    removed = ("query value token", "body key password", "body key pin", "header Authorization",
               "header Cookie")  # fmt: skip
    assert result.removed == dict.fromkeys(removed, 1)
    first = result.operations[0]
    assert first.path == "/login?token=removed&page=1"
    assert dict(first.headers) == {"Accept": "application/json", "Content-Type": "application/json"}


def test_other_hosts_and_failed_requests_are_left_out_by_reason(tmp_path: Path) -> None:
    result = imported(tmp_path, entry("https://shop/"), entry("https://cdn/x.js"),
                      entry("https://shop/boom", status=503), entry("https://shop/gone", status=0),
                      entry("https://shop/x", "TRACE"))  # fmt: skip
    assert [operation.name for operation in result.operations] == ["GET /"]
    assert result.left_out == {"to another host, cdn": 1, "no answer, or one of 1xx or 5xx": 2,
                               "method TRACE": 1}  # fmt: skip


def test_statuses_that_were_seen_are_the_good_ones(tmp_path: Path) -> None:
    result = imported(tmp_path, entry("https://shop/old", status=301),
                      entry("https://shop/page", status=304),
                      entry("https://shop/items/1", status=200),
                      entry("https://shop/items/2", status=404))  # fmt: skip
    assert {operation.name: operation.expect for operation in result.operations} == {
        "GET /items/{}": '["2xx", 404]',
        "GET /old": "301",
        "GET /page": '"2xx"',
    }


def test_a_design_made_of_a_har_is_checked_and_keeps_text_to_the_letter(tmp_path: Path) -> None:
    text = 'a ${b} "c" \\ \x7f é'
    body = {"mimeType": "text/plain", "text": text}
    file = saved(tmp_path, entry("https://shop/items/1?q=a%2Fb%26c"),
                 entry("https://shop/items/2?q=d"),
                 entry("https://shop/notes", "PUT", 204, postData=body))  # fmt: skip
    design = tmp_path / "new-shop"
    assert answer("import", "har", str(file), "--to", str(design))["columns"] == ["items", "q"]
    load = tomllib.loads((design / "experiment.toml").read_text())["load"]
    assert "user" not in load
    by_name = {operation["name"]: operation for operation in load["operations"]}
    assert by_name["PUT /notes"]["body"]["text"] == text.replace("${", "$${")
    assert (design / "parameters.csv").read_text().splitlines()[0] == "items,q"
    assert "a/b&c" in (design / "parameters.csv").read_text()
    check_design(load_design(design))


def test_a_design_that_is_there_gets_the_operations_and_keeps_the_rest(tmp_path: Path) -> None:
    design = tmp_path / "new-shop"
    file = saved(tmp_path, entry("https://shop/a"))
    assert call("import", "har", str(file), "--to", str(design)).exit_code == 0
    before = (design / "experiment.toml").read_text()
    saved(tmp_path, entry("https://shop/b"))
    assert call("import", "har", str(file), "--to", str(design)).exit_code == 0
    after = (design / "experiment.toml").read_text()
    assert after == before.replace("GET /a", "GET /b").replace('"/a"', '"/b"')


@pytest.mark.parametrize(
    ("text", "place"),
    [("{", ""), ("[]", ""), ('{"log": {}}', "log.entries"),
     ('{"log": {"entries": [{"request": {"method": "GET"}, "response": {}}]}}', "request.url")],
)  # fmt: skip
def test_a_file_that_is_no_har_is_refused_by_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "x.har"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_har(path, None)
    assert str(path) in error.value.place
    assert error.value.place.endswith(place)


def test_a_har_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.har"
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)  # sparse
    with pytest.raises(InputError) as error:
        read_har(path, None)
    assert error.value.got == "200 MiB"
    assert har.BYTES_MOST < 200 * 1024 * 1024


def test_a_host_without_requests_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read_har(saved(tmp_path, entry("https://shop/")), "other")
    assert (error.value.got, "--host" in error.value.hint) == ("shop (1)", True)


@pytest.mark.parametrize(
    ("entries", "got", "hint"),
    [
        ([], "no requests", har._HINT),
        ([entry("https://shop/", status=503)], "no answer, or one of 1xx or 5xx (1)", "again"),
    ],
)
def test_a_har_without_good_answers_is_refused_by_reason(
    tmp_path: Path, entries: list[dict[str, Any]], got: str, hint: str
) -> None:
    with pytest.raises(InputError) as error:
        read_har(saved(tmp_path, *entries), None)
    assert (error.value.got, hint in error.value.hint) == (got, True)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = saved(tmp_path, entry("https://shop/"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_har(path, None)[1] == "shop"


def test_keys_of_a_locustfile_go_with_it(tmp_path: Path) -> None:
    before = '[load]\nlocustfile = "users.py"\ntask_timeout_s = 30.0\nrate_per_s = 2.0\n'
    toml = replace_operations(before, imported(tmp_path, entry("https://shop/")))
    assert {*tomllib.loads(toml)["load"]} == {"rate_per_s", "operations"}


def posted(text: str, kind: str) -> dict[str, Any]:
    return entry("https://shop/in", "POST", postData={"mimeType": kind, "text": text})


@pytest.mark.parametrize(
    "said",
    [{"pin": 77_665_544}, {"tokens": ["hunter2"]},
     {"password": {"new": "hunter2", "old": "hunter2"}}, {"password_confirmation": "hunter2"},
     {"pwd": "hunter2"}, {"note": "Bearer hunter2hunter2"}, {"next": "https://a/?token=hunter2"},
     {"inner": '{"password": "hunter2"}'}],
)  # fmt: skip
def test_no_value_below_a_secret_key_or_of_a_secrets_shape_is_kept(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    for kind in ("application/json", "text/plain"):
        result = imported(tmp_path, posted(json.dumps(said), kind))
        assert len(result.operations) == 1
        text = operations_toml(result.operations)
        assert "hunter2" not in text
        assert "77665544" not in text
        assert result.removed


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("multipart/form-data; boundary=X", '--X\r\n...; name="password"\r\n\r\nhunter2\r\n--X--'),
        ("application/x-ndjson", '{"password": "hunter2"}\n{}'),
        ("", "user=ada&password=hunter2"),
        ("application/xml", "<login><password>hunter2</password></login>"),
    ],
)
def test_another_body_that_names_a_secret_is_left_out(tmp_path: Path, kind: str, text: str) -> None:
    result = imported(tmp_path, entry("https://shop/"), posted(text, kind))
    assert [operation.name for operation in result.operations] == ["GET /"]
    assert sum(result.left_out.values()) == 1


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/reset-password/abcdef0123456789abcdef", "/reset-password/removed"),
        ("/invite/abcdef0123456789abcdef", "/invite/removed"),
        ("/page;jsessionid=hunter2", "/page;jsessionid=removed"),
        ("/p?x=eyJhbGciOiJI.eyJzdWIiOiI.c2ln", "/p?x=removed"),
        ("/books?author=ada", "/books?author=ada"),
        ("/users/12345", "/users/12345"),
    ],
)
def test_secrets_in_a_path_are_removed(tmp_path: Path, target: str, path: str) -> None:
    result = imported(tmp_path, entry(f"https://shop{target}"))
    assert [operation.path for operation in result.operations] == [path]


def test_a_form_that_stands_in_params_alone_is_sent(tmp_path: Path) -> None:
    form = {
        "mimeType": "application/x-www-form-urlencoded",
        "params": [{"name": "a", "value": "b c"}, {"name": "pin", "value": "1234"}],
    }
    result = imported(tmp_path, entry("https://shop/in", "POST", postData=form))
    assert result.operations[0].body == "a=b+c&pin=removed"


def test_the_first_request_over_http_names_the_host(tmp_path: Path) -> None:
    path = saved(tmp_path, entry("data:image/png;base64,aa"), entry("https://Shop/"),
                 entry("http://[bad/"))  # fmt: skip
    traffic, host = read_har(path, None)
    assert host == "shop"
    assert sum(traffic.left_out.values()) == 2
    assert sum(read_har(path, "SHOP")[0].counts.values()) == 1


def test_a_time_before_all_calendars_is_no_time(tmp_path: Path) -> None:
    early = {**entry("https://shop/"), "startedDateTime": "0001-01-01T00:00:00"}
    traffic, _ = read_har(saved(tmp_path, early), None)
    assert traffic.by_second == {}


def test_a_value_of_several_lines_or_of_no_text_is_left_out(tmp_path: Path) -> None:
    result = imported(tmp_path, entry("https://shop/a?q=1"), entry("https://shop/a?q=x%0Ay"),
                      entry("https://shop/a?q=%FF"))  # fmt: skip
    assert result.requests == 1
    assert sum(result.left_out.values()) == 2


def test_a_content_type_that_cannot_be_sent_is_not_kept(tmp_path: Path) -> None:
    result = imported(tmp_path, posted("hi", "text/plain\r\nX-Other: 1"))
    assert result.operations[0].headers == ()


def test_no_name_in_the_file_reaches_the_terminal_as_a_control_sequence(tmp_path: Path) -> None:
    path = saved(tmp_path, entry("https://shop/"), entry("https://\x1b[31mred/"))
    result = call("import", "har", str(path))
    assert result.exit_code == 0
    assert "\x1b" not in result.output
