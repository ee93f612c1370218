"""Nights for tests: a made-up history, and a program in place of `sparecraft`, for runs made up."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from experiments.nightly.history import End, Gain, Night, Percentile, Run, Start, Writer
from experiments.paths import ROOT
from experiments.tests.report_fixture import fake_run

T0 = datetime(2026, 11, 1, 1, 0, tzinfo=UTC)

_STAND_IN = '''#!{python}
"""sparecraft run | down, without a fleet: plays the next act of acts.json."""
import json, os, pathlib, shutil, sys, time, tomllib

here = pathlib.Path(__file__).resolve().parent
words = sys.argv[1:]
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
if words[0] != "run":
    sys.exit(0)
design = pathlib.Path(words[1])
results = pathlib.Path(words[words.index("--results") + 1])
name = (design / "fleet.tfvars").read_text().split('experiment = "')[1].split('"')[0]
seed = tomllib.loads((design / "experiment.toml").read_text())["design"]["seed"]
acts = json.loads((here / "acts.json").read_text())
act = acts[name].pop(0) if acts.get(name) else "ok"
(here / "acts.json").write_text(json.dumps(acts))
if act == "no docker":
    sys.exit(3)
count = len(list((results / name).glob("2*"))) if (results / name).is_dir() else 0
run = f"20261101T01{{count:02d}}00Z"
folder = results / name / run
if act == "halted":  # until it is told
    import signal
    sys.path.insert(0, {root!r})
    from experiments.stage import runs
    active = runs.Active(os.getpid(), name, design.name, str(folder), "")
    with runs.registered(active) as told:
        ends = {{signal.SIGINT, signal.SIGTERM}}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        (here / "hangs").write_text(str(os.getpid()))
        signal.sigwait(ends)
        reason = runs.asked(told).reason
if act in ("hang", "stubborn"):
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{{}}")
    (here / "hangs").write_text(str(os.getpid()))
    if act == "stubborn":
        import signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        time.sleep(0.05)
shutil.copytree(here / "template", folder)
for file in ("result.json", "manifest.json"):
    body = json.loads((folder / file).read_text())
    body.update(run=run, experiment=name)
    if file == "result.json":
        if act == "halted":
            body["stopped"] = {{"by": "halt", "condition": "", "reason": reason, "at_s": 9.0,
                                "undone_after_s": 0.5}}
        if act in ("not valid", "halted"):
            body["valid"] = False
            body["verdicts"]["measurement"] = {{"ok": False, "reasons": ["made up"]}}
        for one in (body["slo"], *body["slo"]["arms"].values()):
            one["met"] = act != "missed"
    else:
        body["seed"] = seed
    (folder / file).write_text(json.dumps(body))
sys.exit(0 if act == "ok" else 1)
'''


def template_run(folder: Path) -> Path:
    """A small made-up run."""
    return fake_run(seed=4, measure_s=12.0, warm_up_s=2.0).write(folder)


def stand_in(folder: Path, template: Path, acts: Mapping[str, Sequence[str]]) -> list[str]:
    """The command that stands in for `sparecraft`; acts by experiment, "ok" when they are over."""
    folder.mkdir(exist_ok=True)
    (folder / "template").symlink_to(template)
    (folder / "acts.json").write_text(json.dumps(acts))
    program = folder / "sparecraft"
    program.write_text(_STAND_IN.format(python=sys.executable, root=str(ROOT)))
    program.chmod(0o755)
    return [str(program)]


def calls(folder: Path) -> list[list[str]]:
    """What the stand-in was asked for, in order."""
    file = folder / "calls.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def suite_file(at: Path, *designs: str, **keys: Any) -> Path:
    """A suite of designs, each as it is or `NAME: more lines`."""
    at.mkdir(exist_ok=True)
    lines = [
        f"{key} = {json.dumps(value)}" for key, value in {"budget_minutes": 600, **keys}.items()
    ]
    for one in designs:
        name, _, more = one.partition(":")
        lines += ["", "[[designs]]", f'design = "{name}"', *more.split(";")]
    path = at / "nightly.toml"
    path.write_text("\n".join(line.strip() for line in lines) + "\n")
    return path


def made_up_run(night: int, entry: str = "mediawiki-noisy", **changes: Any) -> list[Run]:
    """Two arms of a valid run; `log` and `error` are the gain's, p95 that of the replicated arm."""
    log, error = changes.pop("log", 0.5), changes.pop("error", 0.1)
    p95_ms = changes.pop("p95_ms", 300.0)
    at = T0 + timedelta(days=night)
    head: dict[str, Any] = {
        "night": night, "number": 1, "at": at, "entry": entry, "design": entry, "digest": "d1",
        "seed": 7, "experiment": entry, "run": f"{at:%Y%m%dT%H%M%SZ}", "folder": None,
        "kind": "compare", "platform": "local", "started": at, "minutes": 7.5, "exit_code": 0,
        "version": "0.1.0", "commit": f"c{night:04d}", "valid": True, "baseline": "baseline",
        "host": {"cpu": "Example CPU", "cores": 2, "kernel": "6.1.0"}, "judged": "replicated",
        "cost": {"usd": 0.02, "usd_per_month": 117.0}, "slo_set": "after",
        "slo": {"p95_ms": 500.0, "p99_ms": 1000.0},
        "plan": {"feasible": True, "usd_per_month": 100.0, "p95_ms": 280.0,
                 "prices_as_of": "2026-05-04"},
        "faults": {"injected": 8, "reverted": 8, "clean": True},
        "requests": 960, "core_speed": 20.0, "stolen_share": 0.01, **changes,
    }  # fmt: skip

    def tail(ms: float) -> dict[str, Any]:
        return {
            name: Percentile(ms=ms * by, low_ms=ms * by * 0.8, high_ms=ms * by * 1.25, samples=960)
            for name, by in (("p50", 0.3), ("p95", 1.0), ("p99", 1.8))
        }

    gain = Gain(log=log, low=log - 1.96 * error, high=log + 1.96 * error)
    met = head.pop("slo_met", p95_ms <= 500.0)
    slower = tail(p95_ms * math.exp(log))
    return [
        Run(**head, arm="baseline", slo_met=False, **slower),
        Run(**head, arm="replicated", slo_met=met, burn={"p95_ms": 0.4}, **tail(p95_ms),
            gains={"mean": gain, "p95": gain, "p99": gain}),
    ]  # fmt: skip


def write_nights(
    folder: Path,
    runs: Sequence[Sequence[Run]],
    entries: Sequence[str] = ("mediawiki-noisy",),
    **last: Any,
) -> None:
    """A history in which each element of `runs` is a night's lines; `last` is of the last end."""
    writer = Writer(folder)
    for place, lines in enumerate(runs, start=1):
        at = lines[0].at if lines else T0 + timedelta(days=place)
        writer.append(
            Night(night=place, at=at, suite="nightly.toml", budget_minutes=60.0,
                  entries=tuple(entries))
        )  # fmt: skip
        for run in {(one.entry, one.number): one for one in lines}.values():
            writer.append(
                Start(night=place, number=run.number, at=at, entry=run.entry, design=run.design,
                      digest=run.digest, experiment=run.experiment, seed=run.seed)
            )  # fmt: skip
        writer.append(*lines)
        more = last if place == len(runs) else {}
        writer.append(End(night=place, at=at, runs=1, **more))


def levels(count: int, change_at: int, size: float, spread: float, seed: int) -> list[float]:
    """Log gains of nights: a level, what nights differ by, and a change."""
    values = 0.5 + np.random.default_rng(seed).normal(0.0, spread, count)
    values[change_at:] += size
    return [float(value) for value in values]
