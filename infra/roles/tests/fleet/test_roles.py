"""The role images, built and run: pages, queries, write protection, death and return.

Servers run by their start.sh, without the agent, on a network of their own.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from machines import PREFIX, ROOT, Machine, arbiter_config, docker, eventually, get

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

TITLES = (ROOT / "infra/roles/mariadb/titles.txt").read_text().split()
DB, WEB, INFLUX, ARBITER = (f"198.18.241.{n}" for n in (30, 20, 5, 10))
ROLE_ENV = f"DB_HOST={DB}\nDB_PORT=3306\nDB_USER=wiki\nDB_PASSWORD=wiki-read\nDB_NAME=wiki\n"


@pytest.fixture(scope="module")
def db(machine: Callable[..., Machine]) -> Machine:
    return machine("mariadb", DB)


@pytest.fixture(scope="module")
def role_env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("env") / "role.env"
    path.write_text(ROLE_ENV)
    return path


@pytest.fixture(scope="module")
def web(machine: Callable[..., Machine], db: Machine, role_env: Path) -> Machine:
    db.wait_until_ready()
    return machine("mediawiki", WEB, {"/etc/sparecraft/role.env": role_env})


def sql(db: Machine, statement: str, user: str = "wiki", check: bool = True) -> str:
    login = ["-h127.0.0.1", "-uwiki", "-pwiki-read"] if user == "wiki" else ["-uroot"]
    return db.run("mariadb", *login, "-BNe", statement, "wiki", check=check).strip()


def view(title: str) -> str:
    answer = get(f"http://{WEB}/wiki/{title}")
    assert answer.status_code == 200, title
    return answer.text


def heading(title: str) -> str:
    return f'<span class="mw-page-title-main">{title}</span></h1>'


LOG = "/tmp/general.log"
LOG_LINE = re.compile(
    r"^[^\t]*\t+ *(?P<connection>\d+) (?P<event>\w+)\t?(?P<text>.*)$", re.MULTILINE
)


def logged_events(db: Machine) -> list[tuple[str, str]]:
    """Event and text of what the web machine's connections did: Connect, Query ..., Quit."""
    lines = [match.groups() for match in LOG_LINE.finditer(db.run("cat", LOG))]
    ours = {number for number, event, text in lines if event == "Connect" and "wiki@" in text}
    return [(event, text) for number, event, text in lines if number in ours]


def statements_of_a_view(db: Machine, title: str) -> list[tuple[str, str]]:
    """The lines of the database's general log about one page view."""
    sql(db, f"SET GLOBAL general_log_file='{LOG}'; SET GLOBAL general_log=ON", "root")
    try:
        view(title)
        eventually(
            "a connection's end", lambda: "Quit" in [event for event, _ in logged_events(db)]
        )
        return logged_events(db)
    finally:
        sql(db, "SET GLOBAL general_log=OFF", "root")
        db.run("rm", LOG)


def test_the_database_has_every_page_of_the_titles_file(db: Machine) -> None:
    titles = sql(
        db, "SELECT page_title FROM page WHERE page_namespace=0 AND page_title<>'Main_Page'"
    )
    assert sorted(titles.split()) == TITLES
    assert len(TITLES) >= 2000


def test_links_templates_and_categories_are_in_the_database(db: Machine) -> None:
    for table in ("pagelinks", "templatelinks", "categorylinks"):
        assert int(sql(db, f"SELECT COUNT(*) FROM {table}")) >= len(TITLES), table
    assert sql(db, "SELECT cat_pages FROM category WHERE cat_title='Nouns'") != ""
    assert sql(db, "SELECT ss_good_articles FROM site_stats") == str(len(TITLES))


@pytest.mark.parametrize("title", TITLES[:: len(TITLES) // 20])
@pytest.mark.usefixtures("web")
def test_a_page_has_its_title_as_heading_and_its_text(title: str) -> None:
    body = view(title)
    assert heading(title) in body
    assert '<div class="headword"' in body
    assert "Collaborative International Dictionary" in body
    assert "</html>" in body


@pytest.mark.usefixtures("web")
def test_both_forms_of_an_address_give_the_page() -> None:
    assert heading(TITLES[7]) in get(f"http://{WEB}/index.php?title={TITLES[7]}").text


@pytest.mark.usefixtures("web")
def test_a_page_view_makes_one_connection_and_at_least_15_queries(db: Machine) -> None:
    events = statements_of_a_view(db, TITLES[100])
    assert [event for event, _ in events].count("Connect") == 1
    assert sum(text.startswith("SELECT") for _, text in events) >= 15


@pytest.mark.usefixtures("web")
def test_a_page_view_sends_nothing_but_reads_and_session_statements(db: Machine) -> None:
    events = statements_of_a_view(db, TITLES[200])
    assert {event for event, _ in events} == {"Connect", "Query", "Quit"}
    verbs = {text.split()[0] for event, text in events if event == "Query"}
    assert verbs == {"SET", "BEGIN", "SELECT", "COMMIT"}


@pytest.mark.usefixtures("web")
def test_a_second_view_of_a_page_costs_the_same_queries(db: Machine) -> None:
    first_view, second_view = (statements_of_a_view(db, TITLES[300]) for _ in range(2))
    assert len(first_view) == len(second_view)


@pytest.mark.usefixtures("web")
def test_addresses_in_a_page_follow_the_host_that_was_asked() -> None:
    page = get(f"http://{WEB}/wiki/Main_Page", Host="198.18.0.10:8080").text
    assert 'href="http://198.18.0.10:8080/api.php' in page
    front = get(f"http://{WEB}/", Host="there.example:81")
    assert front.headers["Location"] == "http://there.example:81/wiki/Main_Page"


@pytest.mark.parametrize(
    "path", ["/maintenance/install.php", "/LocalSettings.php", "/includes/Setup.php", "/api.php"]
)
@pytest.mark.usefixtures("web")
def test_what_a_reader_does_not_need_has_no_address(path: str) -> None:
    assert get(f"http://{WEB}{path}").status_code in (403, 404)


def test_nobody_can_write_to_a_replica(db: Machine) -> None:
    assert "command denied" in sql(db, "DELETE FROM page", check=False)
    assert "is read only" in sql(db, "DELETE FROM page", "root", check=False)


def test_a_replica_is_ready_and_whole_after_a_sigkill(db: Machine) -> None:
    before = sql(db, "CHECKSUM TABLE page, revision, text, pagelinks")
    db.die_and_return()
    assert sql(db, "CHECKSUM TABLE page, revision, text, pagelinks") == before


def test_a_web_machine_serves_after_a_sigkill(web: Machine, db: Machine) -> None:
    db.wait_until_ready()
    web.die_and_return()
    assert heading(TITLES[5]) in view(TITLES[5])


def test_a_web_machine_is_ready_only_after_a_page_and_then_without_the_database(
    web: Machine, db: Machine
) -> None:
    docker("stop", db.name)
    docker("kill", web.name)
    docker("start", web.name)
    eventually("Apache answers", lambda: "ready" in web.run("bash", "-c", PING, check=False))
    assert not web.is_ready()
    docker("start", db.name)
    db.wait_until_ready()
    web.wait_until_ready()
    docker("stop", db.name)
    assert web.is_ready()
    docker("start", db.name)
    db.wait_until_ready()


def test_a_web_machine_is_ready_again_soon_where_idle_connections_hold_all_workers(
    web: Machine,
) -> None:
    web.wait_until_ready()
    connections = [http.client.HTTPConnection(WEB, 80, timeout=30) for _ in range(8)]
    for connection in connections:
        connection.request("GET", "/ping.txt")
        assert connection.getresponse().read() == b"ready\n"
    eventually("a worker is free again", web.is_ready, limit_s=30)
    for connection in connections:
        connection.close()


PING = r"exec 3<>/dev/tcp/127.0.0.1/80; printf 'GET /ping.txt HTTP/1.0\r\n\r\n' >&3; cat <&3"


Login = tuple[str, str]
LOGIN: Login = ("sparecraft", "of-this-test")
ANOTHER = "of-no-fleet"
POINT = "host,machine=web-1 cpu_percent=12 1000"


@pytest.fixture(scope="module")
def influx(machine: Callable[..., Machine], tmp_path_factory: pytest.TempPathFactory) -> Machine:
    folder = tmp_path_factory.mktemp("influx")
    for name, text in {
        "role.env": f"INFLUXDB_HTTP_BIND_ADDRESS={INFLUX}:8086\n",
        "influxdb-login": ":".join(LOGIN),
        "another-login": f"{LOGIN[0]}:{ANOTHER}",
    }.items():
        (folder / name).write_text(text)
    files = {f"/etc/sparecraft/{file.name}": file for file in folder.iterdir()}
    return machine("influxdb", INFLUX, files)


def influxdb(path: str, login: Login | None, **query: str) -> httpx.Response:
    url, content = f"http://{INFLUX}:8086{path}", POINT if path == "/write" else ""
    parameters = {"db": "sparecraft", **query}
    return httpx.post(url, params=parameters, content=content, auth=login, trust_env=False)


def test_influxdb_has_its_database_and_keeps_its_points_through_a_sigkill(influx: Machine) -> None:
    assert influxdb("/write", LOGIN).status_code == 204
    influx.die_and_return()
    body = influxdb("/query", LOGIN, q="SELECT cpu_percent FROM host").text
    assert '"1970-01-01T00:00:00.000001Z",12]' in body


@pytest.mark.parametrize("login", [None, ("sparecraft", "wrong"), ("", ""), ("admin", LOGIN[1])])
@pytest.mark.usefixtures("influx")
def test_influxdb_answers_nobody_without_the_fleets_password(login: Login | None) -> None:
    statements = (
        *("SELECT * FROM host", "SHOW DATABASES", "DROP DATABASE sparecraft"),
        "CREATE USER another WITH PASSWORD 'x' WITH ALL PRIVILEGES",
        "SET PASSWORD FOR sparecraft = 'x'",
    )
    answers = [influxdb("/query", login, q=statement) for statement in statements]
    answers.append(influxdb("/write", login))
    assert [answer.status_code for answer in answers] == [401] * 6
    assert influxdb("/query", LOGIN, q="SHOW USERS").json()["results"][0]["series"][0][
        "values"
    ] == [["sparecraft", True]]


# ready.sh of a fleet with another password, and what `ps` shows meanwhile.
AS_ANOTHER = """
sed s/influxdb-login/another-login/ /opt/sparecraft/role/ready.sh >/tmp/ready.sh
bash /tmp/ready.sh || echo never ready &
while kill -0 $! 2>/dev/null; do ps -eo args; done
"""


def test_influxdb_whose_first_user_somebody_else_made_is_never_ready(influx: Machine) -> None:
    output = influx.run("bash", "-c", AS_ANOTHER)
    assert "401 Unauthorized" in output
    assert "never ready" in output


def test_influxdbs_password_is_in_no_arguments_and_in_no_log(influx: Machine) -> None:
    output = influx.run("bash", "-c", AS_ANOTHER) + docker("logs", influx.name)
    assert "ask 'POST /query'" in output, "programs were seen"
    assert [word for word in (ANOTHER, LOGIN[1]) if word in output] == []


@pytest.mark.usefixtures("web")
def test_an_arbiter_is_ready_when_its_admin_port_answers(
    machine: Callable[..., Machine], tmp_path: Path
) -> None:
    config = tmp_path / "arbiter.toml"
    config.write_text(arbiter_config(ARBITER, f"{WEB}:80"))
    arbiter = machine("arbiter", ARBITER, {"/etc/sparecraft/arbiter.toml": config})
    assert heading(TITLES[9]) in get(f"http://{ARBITER}/wiki/{TITLES[9]}").text
    arbiter.die_and_return()


@pytest.mark.parametrize("role", ["mariadb", "mediawiki"])
@pytest.mark.usefixtures("web")
def test_sigterm_ends_a_server_by_itself(role: str) -> None:
    name = f"{PREFIX}{role}"
    docker("stop", "--time", "60", name)
    code = docker("inspect", "--format", "{{.State.ExitCode}}", name).strip()
    docker("start", name)
    assert code == "0"
