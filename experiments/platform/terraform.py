"""Terraform as a program: plain commands on a stack, one workspace per experiment, JSON out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from experiments.errors import EnvironmentMissing

Progress = Callable[[str], None]
_LOCK_WAIT = "-lock-timeout=30s"
_PROVIDER = "sparecraft/fleet"  # not in any registry: our own set-up installs it


class Stack:
    """A root module and the workspace of one experiment in it."""

    def __init__(self, directory: Path, experiment: str) -> None:
        self.directory = directory
        self.experiment = experiment

    @property
    def state_directory(self) -> Path:
        """Where Terraform keeps this workspace's state; the variables used lie beside it."""
        return self.directory / "terraform.tfstate.d" / self.experiment

    def apply(self, tfvars: Path, progress: Progress) -> None:
        """Bring the fleet to what `tfvars` says. Raises EnvironmentMissing with diagnostics."""
        self.state_directory.mkdir(parents=True, exist_ok=True)
        kept = self.state_directory / "fleet.tfvars"
        if tfvars.resolve() != kept.resolve():
            kept.write_text(tfvars.read_text())
        self._init()
        self._stream(["apply", "-auto-approve", *self._common(kept)], progress)

    def destroy(self, progress: Progress) -> None:
        """Remove what the workspace's state holds; nothing to do if there is no state."""
        kept = self.state_directory / "fleet.tfvars"
        if not (self.state_directory / "terraform.tfstate").exists() or not kept.exists():
            return
        self._init()
        self._stream(["destroy", "-auto-approve", *self._common(kept)], progress)
        self.forget()

    def forget(self) -> None:
        """Drop the state, whatever it holds."""
        shutil.rmtree(self.state_directory)

    def names(self) -> set[str]:
        """Docker names of the containers and networks that the state holds. Raises
        EnvironmentMissing where it is not whole: the disk was full, the machine went down."""
        state = self.state_directory / "terraform.tfstate"
        if not state.exists():
            return set()
        try:
            resources = json.loads(state.read_text()).get("resources", [])
        except ValueError as error:
            raise EnvironmentMissing(
                f"Terraform's state {state}",
                expected="JSON",
                came=str(error),
                do=f"Call `sparecraft down {self.experiment}`: it removes the fleet and this file.",
            ) from error
        held = [i["attributes"] for resource in resources for i in resource["instances"]]
        return {str(one.get("container_name") or one.get("name")) for one in held}

    def changes(self) -> list[str]:
        """Addresses that `terraform plan` would change; empty when the fleet is as described."""
        kept = self.state_directory / "fleet.tfvars"
        lines = self._messages(["plan", *self._common(kept)])
        planned = (m for m in lines if m.get("type") in ("planned_change", "resource_drift"))
        return [m["change"]["resource"]["addr"] for m in planned]

    def output(self, name: str) -> Any:
        """One output's value."""
        done = self._run(["output", "-json", name])
        return json.loads(done.stdout)

    def _common(self, tfvars: Path) -> list[str]:
        return [f"-var-file={tfvars.resolve()}", "-input=false", _LOCK_WAIT, "-json"]

    def _init(self) -> None:
        self._run(["init", "-input=false", "-no-color"])

    def _command(self, arguments: list[str]) -> list[str]:
        program = shutil.which("terraform")
        if program is None:
            raise EnvironmentMissing(
                "terraform",
                expected="Terraform 1.9 or later on PATH",
                came="no such program",
                do="Install Terraform, or run `make setup`, which says where to get it.",
            )
        return [program, f"-chdir={self.directory}", *arguments]

    def _environment(self) -> dict[str, str]:
        environment = {
            **os.environ,
            "TF_WORKSPACE": self.experiment,
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
        }
        # A configuration file that is named but absent makes Terraform warn at every call.
        if not Path(environment.get("TF_CLI_CONFIG_FILE", "/")).exists():
            del environment["TF_CLI_CONFIG_FILE"]
        return environment

    def _run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self._command(arguments),
            env=self._environment(),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
        if done.returncode != 0:
            raise self._failure(arguments[0], done.stderr.strip() or done.stdout.strip())
        return done

    def _messages(self, arguments: list[str]) -> Iterator[dict[str, Any]]:
        # Its own session: Ctrl-C must not reach Terraform, which would lose track of half a fleet.
        with subprocess.Popen(
            self._command(arguments),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            diagnostics: list[str] = []
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    message = _parse(line)
                    diagnostic = message.get("diagnostic", {})
                    if diagnostic.get("severity") == "error":
                        diagnostics.append(_diagnostic_text(diagnostic))
                    yield message
            except KeyboardInterrupt:
                process.terminate()  # Terraform finishes what is under way and writes its state
                process.wait(timeout=120)
                raise
        if process.returncode != 0:
            raise self._failure(arguments[0], "\n".join(diagnostics) or "no diagnostic was given")

    def _stream(self, arguments: list[str], progress: Progress) -> None:
        for message in self._messages(arguments):
            if message.get("type") in ("apply_complete", "apply_errored", "change_summary"):
                progress(str(message["@message"]))

    def _failure(self, verb: str, said: str) -> EnvironmentMissing:
        do = "Mend what it names and call again; `sparecraft down` removes what was made."
        if verb == "init" and _PROVIDER in said:
            do = "Run `make setup`, which builds and installs this provider, and call again."
        return EnvironmentMissing(
            f"terraform {verb} ({self.directory.name}, workspace {self.experiment})",
            expected="success",
            came=said,
            do=do,
        )


def _parse(line: str) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except json.JSONDecodeError:
        return {"@message": line.rstrip()}
    return message if isinstance(message, dict) else {"@message": line.rstrip()}


def _diagnostic_text(diagnostic: dict[str, Any]) -> str:
    detail = diagnostic.get("detail", "").strip()
    summary = str(diagnostic.get("summary", "")).strip()
    return f"{summary}: {detail}" if detail else summary
