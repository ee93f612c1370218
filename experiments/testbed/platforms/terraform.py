"""Terraform as a program: plain commands on a stack, one workspace per experiment, JSON out.

A state is beside the stack, or in the place that a `backend` block of the stack names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from core.errors import EnvironmentMissing
from core.json_object import JsonObject
from experiments.design.inventory import Identity, Inventory

Progress = Callable[[str], None]
_Output = TypeVar("_Output", bound=BaseModel)
_PRIVATE = 0o077  # a state holds the key of the fleet's authority
_LOCK_WAIT = "-lock-timeout=30s"
_PROVIDER = "sparecraft/fleet"  # not in any registry: our own set-up installs it
_FLEET, _PLATFORM, _STATE = "fleet.tfvars", "platform.tfvars.json", "terraform.tfstate"
_LOCK = ".terraform.lock.hcl"
_DEFAULT = "default"  # the workspace that every backend has
_OUTPUT_S = 60.0


class Stack:
    """A root module and the workspace of one experiment in it."""

    def __init__(self, directory: Path, experiment: str) -> None:
        self.directory = directory
        self.experiment = experiment

    @property
    def state_directory(self) -> Path:
        """The folder of the variables used, and of the state beside them unless a backend keeps
        it."""
        return self.directory / "terraform.tfstate.d" / self.experiment

    @property
    def has_backend(self) -> bool:
        """True if a backend keeps the states."""
        return bool(re.search(r'^\s*backend "(?!local")', self._text(), re.MULTILINE))

    def declared(self) -> set[str]:
        """Names of the stack's variables: a misspelt one in a file is no error to Terraform."""
        return set(re.findall(r'^\s*variable "(\w+)"', self._text(), re.MULTILINE))

    @property
    def variables(self) -> JsonObject:
        """The platform's own variables of the last apply."""
        kept = self.state_directory / _PLATFORM
        return dict(json.loads(kept.read_text())) if kept.exists() else {}

    def apply(
        self, tfvars: Path, progress: Progress, variables: Mapping[str, Any] | None = None
    ) -> None:
        """Bring the fleet to what `tfvars` and the platform's own `variables` say.

        Raises EnvironmentMissing with Terraform's diagnostics.
        """
        _keep(self.state_directory, tfvars, self._with_own(tfvars, variables or {}))
        self._init()
        self._stream(["apply", "-auto-approve", *self._common(self.state_directory)], progress)

    def plan(self, tfvars: Path, variables: Mapping[str, Any]) -> JsonObject:
        """The plan of an apply, as `terraform show -json` has it; nothing is kept."""
        self._init()
        with tempfile.TemporaryDirectory() as scratch:
            kept, plan = Path(scratch), Path(scratch) / "plan"
            _keep(kept, tfvars, self._with_own(tfvars, variables))
            try:
                for _ in self._messages(["plan", f"-out={plan}", *self._common(kept)]):
                    pass
                return dict(json.loads(self._run(["show", "-json", str(plan)]).stdout))
            finally:
                if not any(self.state_directory.glob("*")) and not self.state_resources():
                    self.forget()  # the workspace that Terraform made for the plan

    def _with_own(self, tfvars: Path, variables: Mapping[str, Any]) -> JsonObject:
        """The name too: that of a design's case is not the one in its folder's file."""
        return {**variables, **_own_roles(tfvars), "experiment": self.experiment}

    def replace(self, address: str, progress: Progress) -> None:
        """Make one resource anew and touch no other. Raises EnvironmentMissing."""
        only = [f"-replace={address}", f"-target={address}"]
        self._stream(
            ["apply", "-auto-approve", *only, *self._common(self.state_directory)], progress
        )

    def destroy(self, progress: Progress, *, refresh: bool = True) -> None:
        """Remove what the workspace's state holds; nothing to do if there is no state, or the
        variables are in another checkout. Without `refresh` Terraform does not plan first what is
        missing, which a provider may refuse."""
        if not (self.state_directory / _FLEET).exists() or not self._state():
            return
        self._init()
        seen = [] if refresh else ["-refresh=false"]
        common = self._common(self.state_directory)
        self._stream(["destroy", "-auto-approve", *seen, *common], progress)
        self.forget()

    def remove(self, progress: Progress, sweep: Callable[[], list[str]]) -> list[str]:
        """`destroy`, then `sweep`, which removes by label or tag; returns what only it found.
        Raises EnvironmentMissing, with nothing done, where a backend does not answer."""
        failed = False
        try:
            self.state_resources()
        except EnvironmentMissing:
            if self.has_backend:
                raise
            self.forget()  # a state that is not whole: the sweep does it all
        try:
            self.destroy(progress)
        except EnvironmentMissing:
            failed = True
        swept = sweep()
        if failed and self.state_directory.exists():
            # The sweep removed everything that the state could name: one more destroy empties it.
            self.destroy(progress, refresh=self.has_backend)
        elif self.state_directory.exists() or self.state_resources():
            self.forget()  # variables without a state, or a state whose variables are elsewhere
        return swept

    def forget(self) -> None:
        """Drop the state, whatever it holds."""
        self._delete_workspace()
        shutil.rmtree(self.state_directory, ignore_errors=True)

    def state_resources(self) -> list[JsonObject]:
        """Attributes of everything that the state holds. Raises EnvironmentMissing where it is not
        whole: the disk was full, the machine went down."""
        try:
            state = json.loads(self._state() or "{}")
        except ValueError as error:
            raise EnvironmentMissing(
                f"Terraform's state {self.state_directory / _STATE}",
                expected="JSON",
                got=str(error),
                hint=f"Call `sparecraft down {self.experiment}`: it removes the fleet and this "
                f"file.",
            ) from error
        resources = state.get("resources", [])
        return [i["attributes"] for resource in resources for i in resource["instances"]]

    def changes(self) -> list[str]:
        """Addresses that `terraform plan` would change; empty when the fleet is as described."""
        lines = self._messages(["plan", *self._common(self.state_directory)])
        planned = (m for m in lines if m.get("type") in ("planned_change", "resource_drift"))
        return [m["change"]["resource"]["addr"] for m in planned]

    def output(self, name: str) -> Any:
        """One output's value."""
        done = self._run(["output", "-json", name])
        return json.loads(done.stdout)

    def inventory(self) -> Inventory:
        """The outputs of the state. Raises EnvironmentMissing where it is none of ours."""
        if not self.state_resources():
            raise EnvironmentMissing(
                f"fleet {self.experiment}",
                expected="one that was made from this checkout, or whose state is in its backend",
                got=f"nothing in {'the backend' if self.has_backend else self.state_directory}",
                hint="Go to the checkout that made it.",
            )
        return self._output_as("fleet", Inventory)

    def identity(self) -> Identity:
        """The client certificate for the agents' API."""
        return self._output_as("identity", Identity)

    def _output_as(self, name: str, kind: type[_Output]) -> _Output:
        try:
            return kind.model_validate(self.output(name))
        except ValidationError as error:
            raise EnvironmentMissing(
                f"terraform output {name}",
                expected=f"the {name} that infra/stacks/README.md describes",
                got=str(error),
                hint="Stack, runner and fleet are of different versions: run `make setup`, then "
                f"`sparecraft down {self.experiment}` and make the fleet anew.",
            ) from error

    def _common(self, kept: Path) -> list[str]:
        files = [kept.resolve() / name for name in (_FLEET, _PLATFORM)]
        chosen = [f"-var-file={file}" for file in files if file.exists()]
        return [*chosen, "-input=false", _LOCK_WAIT, "-json"]

    def _init(self) -> None:
        kept = ["-lockfile=readonly"] if _is_committed(self.directory / _LOCK) else []
        # A backend that is new to this checkout refuses a workspace that it does not hold.
        self._run(["init", "-input=false", "-no-color", *kept], workspace=_DEFAULT)

    def _text(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.directory.glob("*.tf")))

    def _state(self) -> str:
        """Return the state as written; empty if there is none."""
        if not self.has_backend:
            state = self.state_directory / _STATE
            return state.read_text() if state.exists() else ""
        return self._run(["state", "pull"]).stdout if self._has_workspace() else ""

    def _has_workspace(self) -> bool:
        """Tell whether the backend has the workspace; a request for its state would create it."""
        self._init()
        listed = self._run(["workspace", "list"], workspace=_DEFAULT).stdout
        return self.experiment in listed.replace("*", " ").split()

    def _delete_workspace(self) -> None:
        if self.has_backend and self._has_workspace():
            self._run(["workspace", "delete", "-force", self.experiment], workspace=_DEFAULT)

    def _command(self, arguments: list[str]) -> list[str]:
        return [_program(), f"-chdir={self.directory}", *arguments]

    def _environment(self, workspace: str | None = None) -> dict[str, str]:
        return _environment(workspace or self.experiment)

    def _run(
        self, arguments: list[str], workspace: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self._command(arguments),
            env=self._environment(workspace),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=_PRIVATE,
            check=False,
        )
        if done.returncode != 0:
            raise self._failure(arguments[0], done.stderr.strip() or done.stdout.strip())
        return done

    def _messages(self, arguments: list[str]) -> Iterator[JsonObject]:
        # Its own session: Ctrl-C must not reach Terraform, which would lose track of half a fleet.
        with subprocess.Popen(
            self._command(arguments),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            umask=_PRIVATE,
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
            said = str(message.get("@message", ""))
            done = message.get("type") in ("apply_complete", "apply_errored", "change_summary")
            if done and not said.startswith("data."):
                progress(said)

    def _failure(self, verb: str, said: str) -> EnvironmentMissing:
        hint = "Mend what it names and call again; `sparecraft down` removes what was made."
        if verb == "init" and _PROVIDER in said:
            hint = "Run `make setup`, which builds and installs this provider, and call again."
        return EnvironmentMissing(
            f"terraform {verb} ({self.directory.name}, workspace {self.experiment})",
            expected="success",
            got=said,
            hint=hint,
        )


def outputs(directory: Path, workspace: str | None) -> str:
    """All outputs of a root module, as `terraform output -json` prints them; of the workspace that
    is selected there where none is named. Raises EnvironmentMissing."""
    done = subprocess.run(
        [_program(), f"-chdir={directory}", "output", "-json"],
        env=_environment(workspace),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=_OUTPUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise EnvironmentMissing(
            f"terraform output ({directory})",
            expected="the outputs of a configuration that was applied",
            got=done.stderr.strip() or done.stdout.strip(),
            hint="Name the folder that `terraform apply` was called in.",
        )
    return done.stdout


def _program() -> str:
    program = shutil.which("terraform")
    if program is None:
        raise EnvironmentMissing(
            "terraform",
            expected="Terraform 1.9 or later on PATH",
            got="no such program",
            hint="Install Terraform, or run `make setup`, which says where to get it.",
        )
    return program


def _environment(workspace: str | None) -> dict[str, str]:
    """Return this process's environment for Terraform; without a workspace the selected one is
    used.
    """
    environment = {**os.environ, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
    if workspace is not None:
        environment["TF_WORKSPACE"] = workspace
    # A configuration file that is named but absent makes Terraform warn at every call.
    if not Path(environment.get("TF_CLI_CONFIG_FILE", "/")).exists():
        del environment["TF_CLI_CONFIG_FILE"]
    return environment


def _is_committed(lock: Path) -> bool:
    """True for a lock file that came with the checkout: it has checksums of what a registry serves,
    none of our own provider, which is built here. Terraform would add that one, and so change a
    file that is under version control."""
    text = lock.read_text() if lock.exists() else ""
    block = re.search(
        rf'^provider "\S+/{_PROVIDER}" \{{$(.*?)^\}}$', text, re.DOTALL | re.MULTILINE
    )
    return block is not None and "hashes" not in block[1]


def stated(stack: Path) -> list[str]:
    """The experiments that a root module has states of."""
    return sorted(path.name for path in (stack / "terraform.tfstate.d").glob("*/"))


def _own_roles(tfvars: Path) -> JsonObject:
    """The stack's variable for a design that brings roles of its own."""
    own = tfvars.resolve().parent / "roles"
    return {"roles_dirs": ["infra/roles", str(own)]} if any(own.glob("*/role.json")) else {}


def _keep(folder: Path, tfvars: Path, variables: Mapping[str, Any]) -> None:
    """Both files of variables, so that what was applied can be destroyed whatever became of
    the design."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if tfvars.resolve() != (folder / _FLEET).resolve():
        _private(folder / _FLEET).write_text(tfvars.read_text())
    _private(folder / _PLATFORM).write_text(json.dumps(variables, indent=2))
    for one in folder.iterdir():
        one.chmod(0o700 if one.is_dir() else 0o600)  # of a version that left them to all


def _private(file: Path) -> Path:
    """The file, for nobody else from its first byte on."""
    file.touch(mode=0o600)
    return file


def _parse(line: str) -> JsonObject:
    try:
        message = json.loads(line)
    except json.JSONDecodeError:
        return {"@message": line.rstrip()}
    return message if isinstance(message, dict) else {"@message": line.rstrip()}


def _diagnostic_text(diagnostic: JsonObject) -> str:
    detail = diagnostic.get("detail", "").strip()
    summary = str(diagnostic.get("summary", "")).strip()
    return f"{summary}: {detail}" if detail else summary
