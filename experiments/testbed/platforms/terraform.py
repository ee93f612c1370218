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
        return bool(re.search(r'^\s*backend "(?!local")', self._source(), re.MULTILINE))

    def variable_names(self) -> set[str]:
        """Return the names of the stack's variables: Terraform accepts misspelt ones in a file."""
        return set(re.findall(r'^\s*variable "(\w+)"', self._source(), re.MULTILINE))

    @property
    def variables(self) -> JsonObject:
        """The platform's own variables of the last apply."""
        file = self.state_directory / _PLATFORM
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def apply(
        self, tfvars: Path, progress: Progress, variables: Mapping[str, Any] | None = None
    ) -> None:
        """Bring the fleet to what `tfvars` and the platform's own `variables` say.

        Raises EnvironmentMissing with Terraform's diagnostics.
        """
        _write_variables(
            self.state_directory, tfvars, self._add_own_variables(tfvars, variables or {})
        )
        self._init()
        self._stream(
            ["apply", "-auto-approve", *self._common_options(self.state_directory)], progress
        )

    def plan(self, tfvars: Path, variables: Mapping[str, Any]) -> JsonObject:
        """Return the plan of an apply, as `terraform show -json` has it; nothing is kept."""
        self._init()
        with tempfile.TemporaryDirectory() as scratch:
            folder, plan = Path(scratch), Path(scratch) / "plan"
            _write_variables(folder, tfvars, self._add_own_variables(tfvars, variables))
            try:
                for _ in self._messages(["plan", f"-out={plan}", *self._common_options(folder)]):
                    pass
                return dict(json.loads(self._run(["show", "-json", str(plan)]).stdout))
            finally:
                if not any(self.state_directory.glob("*")) and not self.state_resources():
                    self.forget()  # the workspace that Terraform made for the plan

    def _add_own_variables(self, tfvars: Path, variables: Mapping[str, Any]) -> JsonObject:
        """Add the roles and the experiment: a design's case has another than its folder's file."""
        return {**variables, **_role_variables(tfvars), "experiment": self.experiment}

    def replace(self, address: str, progress: Progress) -> None:
        """Make one resource anew and touch no other. Raises EnvironmentMissing."""
        only = [f"-replace={address}", f"-target={address}"]
        self._stream(
            ["apply", "-auto-approve", *only, *self._common_options(self.state_directory)], progress
        )

    def destroy(self, progress: Progress, *, refresh: bool = True) -> None:
        """Remove the resources of the workspace's state. Does nothing if there is no state, or the
        variables are in another checkout. Without `refresh` Terraform does not first look for
        missing resources, which a provider may refuse."""
        if not (self.state_directory / _FLEET).exists() or not self._state():
            return
        self._init()
        refresh_option = [] if refresh else ["-refresh=false"]
        common = self._common_options(self.state_directory)
        self._stream(["destroy", "-auto-approve", *refresh_option, *common], progress)
        self.forget()

    def remove(self, progress: Progress, sweep: Callable[[], list[str]]) -> list[str]:
        """Call `destroy`, then `sweep`, which removes by label or tag; returns what only the sweep
        found. Raises EnvironmentMissing, with nothing done, if a backend does not answer."""
        failed = False
        try:
            self.state_resources()
        except EnvironmentMissing:
            if self.has_backend:
                raise
            self.forget()  # an incomplete state: the sweep removes everything
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
        """Return the attributes of everything in the state. Raises EnvironmentMissing if it is
        incomplete: the disk was full, or the machine went down."""
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
        return [
            instance["attributes"] for resource in resources for instance in resource["instances"]
        ]

    def changes(self) -> list[str]:
        """Return the addresses that `terraform plan` would change; none if the fleet is as
        described."""
        lines = self._messages(["plan", *self._common_options(self.state_directory)])
        changes = (
            message
            for message in lines
            if message.get("type") in ("planned_change", "resource_drift")
        )
        return [message["change"]["resource"]["addr"] for message in changes]

    def output(self, name: str) -> Any:
        process = self._run(["output", "-json", name])
        return json.loads(process.stdout)

    def inventory(self) -> Inventory:
        """Return the inventory of the state. Raises EnvironmentMissing if the state is empty."""
        if not self.state_resources():
            raise EnvironmentMissing(
                f"fleet {self.experiment}",
                expected="one that was made from this checkout, or whose state is in its backend",
                got=f"nothing in {'the backend' if self.has_backend else self.state_directory}",
                hint="Go to the checkout that made it.",
            )
        return self._output_as("fleet", Inventory)

    def identity(self) -> Identity:
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

    def _common_options(self, folder: Path) -> list[str]:
        files = [folder.resolve() / name for name in (_FLEET, _PLATFORM)]
        options = [f"-var-file={file}" for file in files if file.exists()]
        return [*options, "-input=false", _LOCK_WAIT, "-json"]

    def _init(self) -> None:
        lock_option = ["-lockfile=readonly"] if _is_committed(self.directory / _LOCK) else []
        # A backend that is new to this checkout refuses a workspace that it does not hold.
        self._run(["init", "-input=false", "-no-color", *lock_option], workspace=_DEFAULT)

    def _source(self) -> str:
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
        workspaces = self._run(["workspace", "list"], workspace=_DEFAULT).stdout
        return self.experiment in workspaces.replace("*", " ").split()

    def _delete_workspace(self) -> None:
        if self.has_backend and self._has_workspace():
            self._run(["workspace", "delete", "-force", self.experiment], workspace=_DEFAULT)

    def _command(self, arguments: list[str]) -> list[str]:
        return [_program(), f"-chdir={self.directory}", *arguments]

    def _run(
        self, arguments: list[str], workspace: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        process = subprocess.run(
            self._command(arguments),
            env=_environment(workspace or self.experiment),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=_PRIVATE,
            check=False,
        )
        if process.returncode != 0:
            raise self._failure(arguments[0], process.stderr.strip() or process.stdout.strip())
        return process

    def _messages(self, arguments: list[str]) -> Iterator[JsonObject]:
        # Its own session: Ctrl-C must not reach Terraform, which would lose track of half a fleet.
        with subprocess.Popen(
            self._command(arguments),
            env=_environment(self.experiment),
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
            text = str(message.get("@message", ""))
            is_result = message.get("type") in ("apply_complete", "apply_errored", "change_summary")
            if is_result and not text.startswith("data."):
                progress(text)

    def _failure(self, verb: str, diagnostics: str) -> EnvironmentMissing:
        hint = "Mend what it names and call again; `sparecraft down` removes what was made."
        if verb == "init" and _PROVIDER in diagnostics:
            hint = "Run `make setup`, which builds and installs this provider, and call again."
        return EnvironmentMissing(
            f"terraform {verb} ({self.directory.name}, workspace {self.experiment})",
            expected="success",
            got=diagnostics,
            hint=hint,
        )


class StackFleet:
    """A platform whose fleet is that of a stack."""

    stack: Stack

    def inventory(self) -> Inventory:
        """Return the resources of the state."""
        return self.stack.inventory()

    def identity(self) -> Identity:
        return self.stack.identity()


def outputs(directory: Path, workspace: str | None) -> str:
    """Return all outputs of a root module, as `terraform output -json` prints them. `workspace`
    None: the one that is selected there. Raises EnvironmentMissing."""
    process = subprocess.run(
        [_program(), f"-chdir={directory}", "output", "-json"],
        env=_environment(workspace),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=_OUTPUT_S,
        check=False,
    )
    if process.returncode != 0:
        raise EnvironmentMissing(
            f"terraform output ({directory})",
            expected="the outputs of a configuration that was applied",
            got=process.stderr.strip() or process.stdout.strip(),
            hint="Name the folder that `terraform apply` was called in.",
        )
    return process.stdout


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
    """Return true for a lock file that came with the checkout. It has checksums of providers from a
    registry, but none of our own provider, which is built here. Terraform would add that checksum,
    and so change a file that is under version control."""
    text = lock.read_text() if lock.exists() else ""
    block = re.search(
        rf'^provider "\S+/{_PROVIDER}" \{{$(.*?)^\}}$', text, re.DOTALL | re.MULTILINE
    )
    return block is not None and "hashes" not in block[1]


def list_experiments(stack: Path) -> list[str]:
    """Return the experiments that a root module has states of."""
    return sorted(path.name for path in (stack / "terraform.tfstate.d").glob("*/"))


def _role_variables(tfvars: Path) -> JsonObject:
    """Return the stack's variable for a design with roles of its own."""
    folder = tfvars.resolve().parent / "roles"
    return {"roles_dirs": ["infra/roles", str(folder)]} if any(folder.glob("*/role.json")) else {}


def _write_variables(folder: Path, tfvars: Path, variables: Mapping[str, Any]) -> None:
    """Write both files of variables, so that the fleet can be destroyed without the design."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if tfvars.resolve() != (folder / _FLEET).resolve():
        _create_private(folder / _FLEET).write_text(tfvars.read_text())
    _create_private(folder / _PLATFORM).write_text(json.dumps(variables, indent=2))
    for path in folder.iterdir():  # the state too, with whatever mode Terraform left it
        path.chmod(0o700 if path.is_dir() else 0o600)


def _create_private(file: Path) -> Path:
    """Create the file so that no other user can read it, and return it."""
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
