"""Locust files, a server that they ask, and plans that have them ask it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from experiments.design.workloads import Operation
from experiments.load.plan import LoadPlan, LocustFile
from experiments.tests.load_fixture import PATIENT_S, make_plan

# All that an ordinary Locust file has.
ORDINARY = """
import itertools, time
from locust import (
    FastHttpUser, HttpUser, LoadTestShape, SequentialTaskSet, TaskSet, User, between,
    constant_pacing, events, tag, task,
)

numbers = itertools.count()


class Steps(SequentialTaskSet):
    @task
    def first(self):
        self.client.post("/first", json={"user": self.user.number})

    @task
    def second(self):
        self.client.get(f"/second/{self.user.number}", name="/second/[n]")

    @task
    def third(self):
        self.client.get("/third")
        self.interrupt()


class Browsing(TaskSet):
    wait_time = between(10, 20)

    def on_start(self):
        self.client.get("/browsing/started")

    @task(3)
    def look(self):
        with self.client.get("/missing", catch_response=True) as response:
            if response.status_code == 404:
                response.success()

    @task
    class Deeper(TaskSet):
        @task
        def deep(self):
            with self.client.get("/deep", catch_response=True) as response:
                response.failure("not deep enough")
            self.interrupt()


class Shopper(HttpUser):
    host = "http://shop.example"
    wait_time = between(5, 9)
    weight = 2
    tasks = [Steps]

    def on_start(self):
        self.number = next(numbers)
        self.client.post("/login", {"user": self.number})
        self.client.headers["X-User"] = str(self.number)

    def on_stop(self):
        self.client.get("/logout")


class Browser(HttpUser):
    wait_time = constant_pacing(3)
    tasks = {Browsing: 1}


class Quick(FastHttpUser):
    @tag("fast")
    @task
    def page(self):
        self.client.get("/page?x=1", name="/page")

    @task
    def own(self):
        self.environment.events.request.fire(
            request_type="own", name="work", response_time=1.5, response_length=7,
            exception=None, context={},
        )


class Shape(LoadTestShape):
    def tick(self):
        return 10, 1
"""


class Answering(ThreadingHTTPServer):
    """Answers every request: 404 for /missing, after 30 s for /never, else 200."""

    request_queue_size = 512
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str, str]] = []  # method, path, X-User
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no error."""

    def paths(self) -> list[str]:
        """The paths that were asked, in their order."""
        return [path for _, path, _ in self.asked]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Answering

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, self.headers.get("X-User", "")))
        if self.path == "/never":
            self.server.closing.wait(30)
        answer = b'{"id": 1}'
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@contextmanager
def answering() -> Iterator[Answering]:
    server = Answering()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def file_plan(
    path: Path,
    url: str,
    weights: Mapping[str, float],
    *,
    count: int = 40,
    gap_s: float = 0.02,
    users: int = 10,
    task_timeout_s: float = 60.0,
    response_s: float = PATIENT_S,
) -> LoadPlan:
    """`count` arrivals of the file's users in turn; the first fifth is warm-up."""
    names = tuple(weights)
    turns = [names[index % len(names)] for index in range(count)]
    plan = make_plan(url, turns, gap_s=gap_s, response_s=response_s, max_in_flight=users)
    return replace(
        plan,
        load=plan.load.model_copy(update={"user": "locustfile"}),
        repeat=0,
        pair=0,
        operations=tuple(Operation(name, name, "", "web") for name in names),
        locustfile=LocustFile(str(path), dict(weights), task_timeout_s),
    )


def one_user(path: Path, url: str, text: str, **options: Any) -> LoadPlan:
    """A plan of a file with one class, `One`, whose body is `text`."""
    head = "import os, threading, time\nimport gevent, requests\nfrom locust import *\n\n\n"
    path.write_text(f"{head}class One(HttpUser):\n{text}")
    return file_plan(path, url, {"One": 1.0}, **options)
