"""One host by OpenSSH's client: an unknown host key is refused, and no question is asked."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from core.errors import EnvironmentMissing
from core.json_object import JsonObject
from experiments.paths import ROOT
from experiments.testbed.platforms.hosts.hosts_file import Host, Hosts

_BOOT = ROOT / "infra" / "boot"
_CONNECT_TIMEOUT_S = 10
_ALIVE_S, _ALIVE_TRIES = 5, 3  # a host that vanishes is given up after their product
_TIMEOUT_S = 900.0  # an installation's
_FREE_MB_MIN = 1024
_OURS = {10: "it is taken", 11: "it is not this experiment's"}
CHANGED = 12


@dataclass(frozen=True)
class Remote:
    """A host, and the options to reach it."""

    host: Host
    hosts_file: Hosts

    def survey(self) -> JsonObject:
        """Return the facts of the host. Raises EnvironmentMissing if it cannot be a machine."""
        facts = self._survey()
        requirements = {
            "root": (facts["root"], "a user that is root, or may `sudo -n`", "neither"),
            "apt": (facts["apt"], "Debian or Ubuntu", "no apt-get"),
            "data": (
                facts["data_address"] is not None,
                f"interface {self.host.data_interface} with one IPv4 address",
                "none, or several",
            ),
            "own": (
                not facts["shared"],
                f"{self.host.data_interface} to carry nothing else",
                "the interface of this ssh connection",
            ),
            "disk": (
                facts["free_mb"] >= _FREE_MB_MIN or facts["holder"] is not None,
                f"{_FREE_MB_MIN} MB free below /opt",
                f"{facts['free_mb']} MB",
            ),
            "cores": (
                facts["cores"] >= self.host.cores,
                f"{self.host.cores} cores",
                str(facts["cores"]),
            ),
        }
        for is_met, expected, got in requirements.values():
            if not is_met:
                raise self._error(
                    expected, got, "Mend the host, or its lines in the file of hosts."
                )
        return facts

    def holder(self) -> dict[str, str] | None:
        holder: dict[str, str] | None = self._survey()["holder"]
        return holder

    def runs(self) -> bool:
        """True if the machine's program runs."""
        return bool(self._survey()["program"])

    def _survey(self) -> JsonObject:
        facts: JsonObject = json.loads(self._run_uploaded("survey", self.host.data_interface))
        return facts

    def take(self, experiment: str, expires: str) -> None:
        """Take the host for one experiment, until `expires`. Raises EnvironmentMissing if another
        experiment has it."""
        self._run_uploaded("take", experiment, expires)

    def install(self, experiment: str, bundle: bytes, content: Path, settings: JsonObject) -> None:
        """Install the machine of `settings` from its role's part of the bundle, and from its
        content if that is here. Raises EnvironmentMissing with the host's output."""
        home = "/opt/sparecraft/bundle"
        self._shell(f"rm -rf {home} && mkdir -p {home} && tar -xzf - -C {home}", bundle)
        if content.exists():
            self._shell(f"cat >{home}/content.tar.gz", content.read_bytes())
        machine = {"role": settings["role"], "files": settings["files"]}
        self._run_boot("install", experiment, text=json.dumps(machine).encode())

    def start(self, experiment: str) -> None:
        self._run_boot("start", experiment)

    def stop(self, experiment: str) -> None:
        """Stop the machine's program and all that it runs, at once."""
        self._run_boot("stop", experiment)

    def release(self, experiment: str) -> list[str]:
        """Uninstall; returns the differences from before."""
        output = self._run_uploaded("release", experiment, ok_codes=(CHANGED,))
        return list(json.loads(output.splitlines()[-1])) if output.strip() else []

    def log(self, lines: int) -> str:
        """Return the last lines of the machine's program."""
        return self._shell(f"tail -n {lines} /var/log/sparecraft.log")

    def reboot(self) -> None:
        """Restart the kernel at once; the connection does not survive it."""
        self._shell("(sleep 0.2; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &")

    def _run_uploaded(self, *arguments: str, ok_codes: tuple[int, ...] = ()) -> str:
        """Run a command of this checkout's host.py on the host, and return its output. Leaves
        nothing there except the command's effect."""
        command = " ".join(map(shlex.quote, arguments))
        return self._shell(
            'd=$(mktemp -d) && tar -xzf - -C "$d" && '
            f'{{ python3 -B "$d/host.py" {command}; rc=$?; rm -rf "$d"; exit $rc; }}',
            _programs(),
            ok_codes=ok_codes,
        )

    def _run_boot(self, *arguments: str, text: bytes = b"") -> str:
        command = " ".join(map(shlex.quote, arguments))
        return self._shell(f"python3 -B /var/lib/sparecraft-host/boot/host.py {command}", text)

    def _shell(self, script: str, text: bytes = b"", *, ok_codes: tuple[int, ...] = ()) -> str:
        """Run a script in a shell of root, and return its output. Raises EnvironmentMissing for an
        exit code that is neither 0 nor in `ok_codes`.
        """
        root = "sh -c" if self.host.user == "root" else "sudo -n -E sh -c"
        try:
            process = subprocess.run(
                [*self._client(), f"{root} {shlex.quote(script)}"],
                input=text,
                capture_output=True,
                timeout=_TIMEOUT_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise self._error(
                "an end", f"none within {_TIMEOUT_S:.0f} s", "See the host."
            ) from error
        output = (process.stdout + process.stderr).decode(errors="replace").strip()
        if process.returncode not in (0, *ok_codes):
            raise self._refusal(process.returncode, output)
        return process.stdout.decode()

    def _client(self) -> list[str]:
        program = shutil.which("ssh")
        if program is None:
            raise self._error("OpenSSH's client", "no ssh on PATH", "Install openssh-client.")
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": _CONNECT_TIMEOUT_S,
            "ServerAliveInterval": _ALIVE_S,
            "ServerAliveCountMax": _ALIVE_TRIES,
        }
        if self.hosts_file.known_hosts is not None:
            options["UserKnownHostsFile"] = self.hosts_file.known_hosts
            options["GlobalKnownHostsFile"] = "/dev/null"
        if self.hosts_file.key is not None:
            options |= {"IdentityFile": self.hosts_file.key, "IdentitiesOnly": "yes"}
        arguments = [
            argument for name, value in options.items() for argument in ("-o", f"{name}={value}")
        ]
        target = [f"-p{self.host.port}", f"{self.host.user}@{self.host.address}"]
        return [program, "-T", *arguments, *target, "--"]

    def _refusal(self, code: int, output: str) -> EnvironmentMissing:
        tail = output[-1500:] or f"exit code {code}"
        if code != 255:  # ssh's own
            reason = _OURS.get(code, "it failed")
            return self._error(
                "success", f"{reason}: {tail}", "`sparecraft down` gives hosts back."
            )
        if "REMOTE HOST IDENTIFICATION HAS CHANGED" in output or "host key" in output.lower():
            return self._error(
                "the host key that is known",
                tail,
                "Find out why it is another before you trust it: `ssh-keyscan` and the console.",
            )
        return self._error(
            "an answer of ssh", tail, "See whether the host is up, and the key fits."
        )

    def _error(self, expected: str, got: str, hint: str) -> EnvironmentMissing:
        place = f"host {self.host.name} ({self.host.user}@{self.host.address})"
        return EnvironmentMissing(place, expected=expected, got=got, hint=hint)


def _programs() -> bytes:
    """Return the parts of host.py, as an archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("host.py", "before.py", "back.py", "role.py", "units.py"):
            archive.add(_BOOT / name, name)
    return packed.getvalue()
