"""Warm users of a Locust file; an arrival starts one task of a free user.

A user of Locust runs in its own greenlet: a task, `wait_time`, the next task. Here the wait lasts
until an arrival, and nothing else is changed, so a user keeps its place in nested and sequential
TaskSets, its session and its cookies. Before the first block each user has had its
`on_start`, and those of the TaskSets that lead to its first task.

A user that is gone (StopUser, a task beyond its time-out) is replaced by a new one. When no user of
the class is free, the arrival is not started.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from locust import TaskSet, User
from locust.env import Environment
from locust.exception import StopUser
from locust.user.task import (
    LOCUST_STATE_RUNNING,
    LOCUST_STATE_STOPPING,
    LOCUST_STATE_WAITING,
    DefaultTaskSet,
)

from experiments.load.workers.locust.loaded_file import error_place
from experiments.load.workers.locust.sharding import pool_shares

_SPAWN_EVERY_S = 0.02  # a user
_SPAWN_S = 10.0  # all of them, at most
ERRORS_MAX = 20  # different errors that are counted
LOOK_EVERY_S = 0.1
_AGAIN_S = 1.0  # before a user that could not be replaced is tried again
_KILLED_S = 1.0  # time for a user that was told to end
_STOP_S = 3.0
_SEAT = "sparecraft_seat"


class LocustFileFailed(Exception):
    """The file does something that ends the run; the text says what, and where."""


@dataclass(slots=True)
class TaskRun:
    """One arrival with its user; times as the pool's clock has them."""

    index: int
    intended_s: float
    started_s: float = 0.0
    requests: int = 0
    open_requests: int = 0  # that were under way when it was ended
    raised: bool = False
    timed_out: bool = False

    @property
    def lag_s(self) -> float:
        """The lateness of its start."""
        return self.started_s - self.intended_s


@dataclass(eq=False)
class Seat:
    """A place of the pool, and the user who has it now."""

    name: str
    host: str
    user: User | None = None
    greenlet: gevent.Greenlet | None = None
    ready: bool = False  # it had its on_start
    error: str = ""  # of its start
    run: TaskRun | None = None
    gate: Event = field(default_factory=Event)


def current_seat() -> Seat | None:
    """Return the seat of the user whose greenlet, or a greenlet spawned by it, makes this call."""
    tree_locals = getattr(gevent.getcurrent(), "spawn_tree_locals", None) or {}
    seat = tree_locals.get(_SEAT)
    return seat if isinstance(seat, Seat) else None


@dataclass
class Counts:
    """Counts of tasks, of replaced users, and of errors."""

    not_started: int = 0
    no_request: int = 0
    raised: int = 0
    timed_out: int = 0
    replaced: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add_error(self, text: str) -> None:
        """Count an error with those of the same text."""
        if text in self.errors or len(self.errors) < ERRORS_MAX:
            self.errors[text] += 1


class UserPool:
    """The users of one Locust file, by class; `size` in all, at least one of each class.

    Parameters: hosts, which users get in turn; on_end, called with each task that has ended.
    """

    def __init__(
        self,
        environment: Environment,
        path: Path,
        classes: Sequence[tuple[type[User], float]],
        hosts: Sequence[str],
        size: int,
        *,
        task_timeout_s: float,
        clock: Callable[[], float],
        on_end: Callable[[TaskRun, Seat], None],
    ) -> None:
        self.counts = Counts()
        self._environment = environment
        self._path = path
        self._classes = {user_class.__name__: user_class for user_class, _ in classes}
        self._task_timeout_s = task_timeout_s
        self._clock = clock
        self._on_end = on_end
        self._stopping = False
        self._free: dict[str, deque[Seat]] = {name: deque() for name in self._classes}
        host_cycle = itertools.cycle(hosts)
        shares = pool_shares([weight for _, weight in classes], size)
        self.seats = [
            Seat(user_class.__name__, next(host_cycle))
            for (user_class, _), count in zip(classes, shares, strict=True)
            for _ in range(count)
        ]
        environment.events.user_error.add_listener(self._on_user_error)
        _change_waits(self)

    def start(self, limit_s: float, look: Callable[[], None]) -> None:
        """Make every user, fire spawning_complete, and wait for the end of each on_start.

        Parameters: look is called again and again, and may raise. Raises: LocustFileFailed.
        """
        end_s = self._clock() + limit_s
        for seat in self.seats:
            look()
            self._seat_user(seat)
            gevent.sleep(min(_SPAWN_EVERY_S, _SPAWN_S / len(self.seats)))
        self._environment.events.spawning_complete.fire(user_count=len(self.seats))
        while not all(self._has_started(seat) for seat in self.seats):
            look()
            if self._clock() > end_s:
                done = sum(seat.ready for seat in self.seats)
                raise LocustFileFailed(
                    f"{done:,} of {len(self.seats):,} users have had on_start after {limit_s:.0f} s"
                )
            gevent.sleep(_SPAWN_EVERY_S)
        look()

    def begin(self, name: str, run: TaskRun) -> bool:
        """Let a free user of a class do its next task. Returns False if no user is free."""
        free = self._free[name]
        if not free:
            self.counts.not_started += 1
            return False
        seat = free.popleft()
        seat.run = run
        seat.gate.set()
        return True

    @property
    def busy(self) -> list[Seat]:
        """The users with a task under way."""
        return [seat for seat in self.seats if seat.run is not None]

    def end_late(self) -> None:
        """End the users whose task is beyond its time-out; a few times a second."""
        now_s = self._clock()
        for seat in self.busy:
            run, greenlet = seat.run, seat.greenlet
            if run is None or greenlet is None:
                continue
            over_s = now_s - run.intended_s - self._task_timeout_s
            if over_s > 0 and not run.timed_out:
                run.timed_out = True
                self.counts.timed_out += 1
                greenlet.kill(block=False)
            elif over_s > _KILLED_S:  # it has caught the exception, or stays in on_stop
                greenlet.spawn_tree_locals.pop(_SEAT, None)
                greenlet.kill(block=False)
                seat.greenlet = None
                self._end_run(seat)
                self._replace(seat)

    def stop(self) -> None:
        """End every user; on_stop has a short time."""
        self._stopping = True
        greenlets = [seat.greenlet for seat in self.seats if seat.greenlet is not None]
        gevent.killall(greenlets, block=True, timeout=_STOP_S)

    def next_run(self, seat: Seat) -> None:
        """End a task, in a user's greenlet, and wait for the next arrival."""
        user = seat.user
        assert user is not None
        if user._state == LOCUST_STATE_STOPPING:
            raise StopUser
        self._end_run(seat)
        user._state = LOCUST_STATE_WAITING
        seat.ready = True
        self._free[seat.name].append(seat)
        seat.gate.wait()
        seat.gate.clear()
        if user._state == LOCUST_STATE_STOPPING:
            raise StopUser
        user._state = LOCUST_STATE_RUNNING
        assert seat.run is not None
        seat.run.started_s = self._clock()

    def before_task(self, seat: Seat) -> None:
        """Make a first task that is no TaskSet wait for an arrival too, in the user's greenlet."""
        if not seat.ready:
            self.next_run(seat)

    def _has_started(self, seat: Seat) -> bool:
        if seat.error:
            raise LocustFileFailed(f"a user of {seat.name} did not come to its tasks: {seat.error}")
        return seat.ready

    def _seat_user(self, seat: Seat) -> None:
        user_class = self._classes[seat.name]
        user_class.host = seat.host
        runner = self._environment.runner
        assert runner is not None
        seat.ready, seat.error = False, ""
        seat.gate.clear()
        try:
            seat.user = user_class(self._environment)
        except Exception as error:
            seat.error = self._locate(error)
            return
        greenlet = runner.user_greenlets.spawn(self._run_user, seat.user, seat)
        greenlet.spawn_tree_locals = {_SEAT: seat}  # what it spawns has them too
        seat.greenlet = seat.user._greenlet = greenlet
        seat.user._group = runner.user_greenlets
        greenlet.link(lambda _: self._replace_user(seat, greenlet))

    def _run_user(self, user: User, seat: Seat) -> None:
        try:
            user.run()
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            text = self._locate(error)
            seat.error = seat.error or text
            if seat.run is not None:
                seat.run.raised = True
            self.counts.add_error(text)

    def _replace_user(self, seat: Seat, greenlet: gevent.Greenlet) -> None:
        """End the task of a user that has ended, and put another user in its place."""
        if seat.greenlet is not greenlet:
            return
        had_started = seat.ready
        self._end_run(seat)
        if seat in self._free[seat.name]:
            self._free[seat.name].remove(seat)
        if self._stopping:
            return
        if not had_started:
            seat.error = seat.error or "it ended itself in on_start"
        self.counts.replaced += 1
        gevent.spawn_later(0.0 if had_started else _AGAIN_S, self._replace, seat)

    def _replace(self, seat: Seat) -> None:
        if not self._stopping:
            self._seat_user(seat)
            if seat.user is None or seat.error:
                gevent.spawn_later(_AGAIN_S, self._replace, seat)

    def _end_run(self, seat: Seat) -> None:
        run, seat.run = seat.run, None
        if run is None:
            return
        self.counts.raised += run.raised
        self.counts.no_request += run.requests == 0
        self._on_end(run, seat)

    def _on_user_error(self, exception: BaseException, **_: Any) -> None:
        """Count an exception of a task or an on_start, which Locust has caught."""
        text = self._locate(exception)
        self.counts.add_error(text)
        seat = current_seat()
        if seat is None:
            return
        if not seat.ready:
            seat.error = text
        elif seat.run is not None:
            seat.run.raised = True

    def _locate(self, error: BaseException) -> str:
        line, text = error_place(self._path, error)
        return f"{self._path.name}:{line}: {text[:300]}" if line else text[:300]


def _change_waits(pool: UserPool) -> None:
    """Have Locust's users wait for arrivals in place of `wait_time`."""

    def wait(task_set: TaskSet) -> None:
        del task_set
        seat = current_seat()
        if seat is None or gevent.getcurrent() is not seat.greenlet:
            raise StopUser  # a user that was given up, or a greenlet without a user
        pool.next_run(seat)

    TaskSet.wait = wait  # type: ignore[method-assign]
    for kind in (TaskSet, DefaultTaskSet):
        kind.execute_task = _gate(pool, kind.execute_task)  # type: ignore[method-assign]


def _gate(pool: UserPool, execute: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def execute_task(task_set: TaskSet, task: Any) -> None:
        is_set = isinstance(task, type) and issubclass(task, TaskSet)
        seat = current_seat()
        if seat is not None and not is_set:
            pool.before_task(seat)
        execute(task_set, task)

    return execute_task
