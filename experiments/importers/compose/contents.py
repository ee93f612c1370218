"""Copy files of a project into a design: limited in size, with portable Dockerfiles."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from core.config_file import ConfigFile, Key
from core.errors import InputError

FILE_BYTES_MAX = 100_000_000
FOLDER_BYTES_MAX = 500_000_000
FILES_MAX = 20_000
LEFT_OUT = (".git",)
_PLATFORM = re.compile(
    r"^(\s*FROM\s+)--platform=\$\{?(?:BUILD|TARGET)PLATFORM\}?\s+", re.MULTILINE | re.IGNORECASE
)
_STAGE = re.compile(r"^[ \t]*FROM\s+.*?(?:\s+AS\s+(\S+))?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_CACHE = re.compile(r"--mount=type=(?:cache|tmpfs)\S*\s+(?:\\\n\s*)?")
_BUILDKIT = re.compile(
    r"^\s*(?:RUN\s.*--(?:mount|network|security)=|(?:COPY|ADD)\s.*--(?:link|parents|exclude)|RUN\s+<<|COPY\s+<<)",
    re.IGNORECASE,
)


def check_size(path: Path, source: ConfigFile, key: Key) -> None:
    """Raise InputError if a file or folder is too large to be copied, or is neither of them."""
    size = 0
    for count, file in enumerate(_files(path), 1):
        length = file.lstat().st_size
        size += length
        if length > FILE_BYTES_MAX:
            raise _too_large(
                source, key, f"files of at most {FILE_BYTES_MAX:,} bytes", f"{file}: {length:,}"
            )
        if size > FOLDER_BYTES_MAX or count > FILES_MAX:
            expected = f"at most {FILES_MAX:,} files of {FOLDER_BYTES_MAX:,} bytes together"
            raise _too_large(source, key, expected, f"more in {path}")
        if not (file.is_symlink() or file.is_file()):
            raise source.error(
                *key,
                expected="files and folders",
                got=f"{file}, which is neither",
                hint="Take it out of the folder.",
            )


def _too_large(source: ConfigFile, key: Key, expected: str, got: str) -> InputError:
    return source.error(
        *key, expected=expected, got=got, hint="Remove parts that the service does not need."
    )


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        yield from (Path(folder) / name for name in (*files, *links))


def copy(path: Path, target: Path) -> None:
    """Copy a file or folder to `target`; links stay links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        left_out = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(path, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)
    else:
        shutil.copy(path, target)


def make_portable(dockerfile: Path, target: str | None, note: Callable[[str], None]) -> None:
    """Remove from a Dockerfile the parts that only BuildKit knows and that change no image: caches
    of RUN, the platform of the builder, and stages after `target`. `note` reports each other line
    that needs BuildKit.
    """
    text = dockerfile.read_text(encoding="utf-8", errors="surrogateescape")
    plain = _CACHE.sub("", _PLATFORM.sub(r"\1", _cut_after_stage(text, target)))
    if plain != text:
        dockerfile.write_text(plain, encoding="utf-8", errors="surrogateescape")
        note("RUN's caches, $BUILDPLATFORM and stages after the target are left out of the copy")
    for number, line in enumerate(plain.splitlines(), 1):
        if _BUILDKIT.search(line):
            note(f"line {number} needs BuildKit, which is not used: {line.strip()[:60]}")


def _cut_after_stage(text: str, target: str | None) -> str:
    stages = list(_STAGE.finditer(text))
    for stage, following in pairwise(stages):
        if target is not None and (stage[1] or "").lower() == target.lower():
            return text[: following.start()]
    return text
