"""Images of the roles have what their scripts name, as far as can be told without building them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
FOLDERS = [
    path.parent
    for pattern in ("infra/roles/*/Dockerfile", "experiments/designs/*/roles/*/Dockerfile")
    for path in sorted(ROOT.glob(pattern))
    if (path.parent / "role.json").exists()
]
NAMED = re.compile(r"/opt/sparecraft/role/([\w.-]+)")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_image_has_every_file_that_the_role_s_scripts_name(folder: Path) -> None:
    lines = (folder / "Dockerfile").read_text().splitlines()
    copied = re.findall(r"[\w.-]+", "\n".join(line for line in lines if line.startswith("COPY")))
    names = {name for path in folder.glob("*.sh") for name in NAMED.findall(path.read_text())}
    assert names - set(copied) == set()
    assert {"start.sh", "ready.sh"} <= set(copied)


# A package whose name has a version is in one release of Debian only.
VERSIONED = re.compile(r"\b[a-z]+[a-z-]*-\d+(?:-[a-z-]+)?\b")
OF_BOTH = {"galera-4"}  # Debian 12 and 13 have it
PATHS = re.compile(r"/usr/lib/(?:postgresql|jvm)/[\w.-]*\d")


def _scripts() -> list[Path]:
    return [*ROOT.glob("infra/roles/*/*.sh"), *ROOT.glob("experiments/designs/*/roles/*/*.sh")]


@pytest.mark.parametrize("script", _scripts(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_role_s_script_takes_what_either_release_of_debian_has(script: Path) -> None:
    text = script.read_text()
    assert PATHS.findall(text) == []
    lines = [line for line in text.splitlines() if "apt-get install" in line]
    assert {name for line in lines for name in VERSIONED.findall(line)} <= OF_BOTH


class _Apt:
    """A folder of programs in which apt has the packages it is told; notes what it installs."""

    def __init__(self, folder: Path, *has: str) -> None:
        self._said = folder / "said"
        body = f"""#!/bin/sh
[ "$1" = install ] || exit 0
for word in "$@"; do case $word in install|-*|curl|{"|".join(has)}) ;; *) exit 100;; esac; done
case $* in *--simulate*) ;; *) echo "$*" >>{self._said};; esac
"""
        for name in ("getent", "mkdir", "install", "rm"):
            self._put(folder, name, "#!/bin/sh\n")
        self._put(folder, "apt-get", body)

    @staticmethod
    def _put(folder: Path, name: str, text: str) -> None:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    def installed(self) -> set[str]:
        return {word for word in self._said.read_text().split() if word.endswith("headless")}


@pytest.mark.parametrize(
    ("has", "taken"),
    [
        (("openjdk-17-jre-headless", "default-jre-headless"), "openjdk-17-jre-headless"),
        (("default-jre-headless",), "default-jre-headless"),
    ],
)
@pytest.mark.parametrize("role", ["java", "solr"])
def test_java_is_17_where_apt_has_it_and_else_the_distribution_s(
    tmp_path: Path, role: str, has: tuple[str, ...], taken: str
) -> None:
    apt = _Apt(tmp_path, *has)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([ROOT / "infra/roles" / role / "install.sh"], env=environment, check=True)
    assert apt.installed() == {taken}
