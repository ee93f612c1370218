"""Nights for tests: a made-up history, and a program in place of `sparecraft`, for runs made up."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from experiments.nightly.history import End, Night, Run, Start, Writer
from experiments.nightly.planted import T0 as T0
from experiments.nightly.planted import made_up_run as made_up_run
from experiments.paths import ROOT
from experiments.tests.report_fixture import fake_run
from experiments.tests.started import executable

_STAND_IN = '''#!{python}
"""sparecraft run | down, without a fleet: plays the next act of acts.json; with --close it also
leaves the run that lies in `planned` beside its folder."""
import json, os, pathlib, shutil, sys, time

here = pathlib.Path(__file__).resolve().parent
words = sys.argv[1:]
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
if words[0] != "run":
    sys.exit(0)
design = pathlib.Path(words[1])
results = pathlib.Path(words[words.index("--results") + 1])
name = (design / "fleet.tfvars").read_text().split('experiment = "')[1].split('"')[0]
seed = int(words[words.index("--seed") + 1])
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
    from experiments.testbed import runs
    active = runs.Active(os.getpid(), name, design.name, str(folder), "")
    with runs.registered(active) as told:
        ends = {{signal.SIGINT, signal.SIGTERM}}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        (here / "hangs").write_text(str(os.getpid()))
        signal.sigwait(ends)
        reason = runs.read_halt(told).reason
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
if "--close" in words:
    shutil.copytree(here.parent / "planned", results / name / "planned" / run)
sys.exit(0 if act == "ok" else 1)
'''


def write_nights(
    folder: Path,
    runs: Sequence[Sequence[Run]],
    entries: Sequence[str] = ("mediawiki-noisy",),
    told: Mapping[int, Sequence[str]] | None = None,
    **last: Any,
) -> None:
    """A history in which each element of `runs` is a night's lines; `told` are the changes of its
    nights by number, `last` is of the last end."""
    writer = Writer(folder)
    for index, lines in enumerate(runs, start=1):
        at = lines[0].at if lines else T0 + timedelta(days=index)
        writer.append(
            Night(night=index, at=at, suite="nightly.toml", budget_minutes=60.0,
                  entries=tuple(entries))
        )  # fmt: skip
        for run in {(line.entry, line.number): line for line in lines}.values():
            writer.append(
                Start(night=index, number=run.number, at=at, entry=run.entry, design=run.design,
                      digest=run.digest, experiment=run.experiment, seed=run.seed)
            )  # fmt: skip
        writer.append(*lines)
        changes = tuple((told or {}).get(index, ()))
        fields = {"changes": changes, **(last if index == len(runs) else {})}
        writer.append(End(**{"night": index, "at": at, "runs": 1, **fields}))


def template_run(folder: Path) -> Path:
    """A small made-up run."""
    return fake_run(seed=4, measure_s=12.0, warm_up_s=2.0).write(folder)


def stand_in(folder: Path, template: Path, acts: Mapping[str, Sequence[str]]) -> list[str]:
    """The command that stands in for `sparecraft`; acts by experiment, "ok" when they are over."""
    folder.mkdir(exist_ok=True)
    (folder / "template").symlink_to(template)
    (folder / "acts.json").write_text(json.dumps(acts))
    text = _STAND_IN.format(python=sys.executable, root=str(ROOT))
    return [str(executable(folder / "sparecraft", text))]


def calls(folder: Path) -> list[list[str]]:
    """The stand-in's requests, in order."""
    file = folder / "calls.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def suite_file(at: Path, *designs: str, **keys: Any) -> Path:
    """A suite of designs, each as it is or `NAME: more lines`."""
    at.mkdir(exist_ok=True)
    lines = [
        f"{key} = {json.dumps(value)}" for key, value in {"budget_minutes": 600, **keys}.items()
    ]
    for design in designs:
        name, _, extra = design.partition(":")
        lines += ["", "[[designs]]", f'design = "{name}"', *extra.split(";")]
    path = at / "nightly.toml"
    path.write_text("\n".join(line.strip() for line in lines) + "\n")
    return path


def levels(count: int, change_at: int, size: float, spread: float, seed: int) -> list[float]:
    """Return log gains of nights: a level, a spread between nights, and a change of `size`."""
    values = 0.5 + np.random.default_rng(seed).normal(0.0, spread, count)
    values[change_at:] += size
    return [float(value) for value in values]
