"""Download a model from the Hugging Face Hub into the models folder, for `rkllm-chat models pull`.

`huggingface_hub` 2.4 begins a download anew when it was killed, so the parts are kept here.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import httpx2

from ..backends.rkllm.model_file import SIDECARS
from ..backends.shared.model_files import choose_projector, is_projector, list_model_folders
from ..config.trust_rules import MODEL_SUFFIXES
from ..core.errors import AuthError, ChatError, ConnectError, ProtocolError, StartError, UsageError
from ..core.run_module import run_module
from ..core.sanitize import sanitize_line
from ..tui.tried_models import list_tried
from .doctor.board import format_size
from .output import write_output

_REPOSITORY = re.compile(r"(?!\.)[\w.-]+/(?!\.)[\w.-]+", re.ASCII)
_SHA256, _BLOB_ID = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")
_PARTS = re.compile(r"-\d+-of-\d+\.gguf\Z")
_TIMEOUT_S = 30.0
_MAX_NAMES, _BLOCK_BYTES = 20, 1024 * 1024
_MAX_LICENSE = 80
_LATER = "Try again later."
REFUSED = 2
"""Exit code of a download that cannot be had as it was asked for."""
_AGAIN = "Try again: it continues where it stopped."


@dataclass(frozen=True)
class _RemoteFile:
    """A file of a repository.

    Attributes:
        path: Path in the repository.
        size_bytes: Its size.
        sha256: Its checksum; "" for a small file, which has only `blob_id`.
        blob_id: Its checksum as Git computes it.
    """

    path: str
    size_bytes: int
    sha256: str
    blob_id: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


def pull_model(reference: str, models_folder: str, write: Callable[[str], None]) -> Path:
    """Download a model, and for the NPU its tokenizer and templates.

    The model appears in its folder when it is whole and its checksum right; until then its part lies beside it.

    Args:
        reference: Name of a model that is listed, REPOSITORY, or REPOSITORY:FILE where it has several models.
        models_folder: Folder of the models from the settings; the model gets a folder of its repository in it.
        write: Writes text for the user.

    Returns:
        Path of the model.

    Raises:
        UsageError: The reference is wrong, or does not name one model.
        AuthError: The license of the repository must be accepted first.
        ConnectError: There is no such repository, or it cannot be reached.
        ProtocolError: The Hub answered something else.
        StartError: `huggingface_hub` is missing, the file cannot be stored, or its checksum is wrong.
    """
    sources = {row["name"]: row["source"] for row in list_tried()}
    repository, _, name = sources.get(reference.lower(), reference).partition(":")
    if not _REPOSITORY.fullmatch(repository):
        hint = "Write OWNER/NAME or OWNER/NAME:FILE; rkllm-chat models pull lists names."
        raise UsageError(f'"{sanitize_line(reference)}" is no repository.', hint)
    if not find_spec("huggingface_hub"):
        hint = "Install it: pip install 'rkllm-chat[hub]'"
        raise StartError("Downloading models needs the package huggingface_hub.", hint)
    models = list_model_folders(models_folder)[0]
    folder = models.joinpath(*repository.split("/"))
    with _translate_errors(repository, models):
        info, files = _read_info(repository)
        model = _choose_model(files, repository, name)
        license_name = sanitize_line(str(getattr(info.card_data, "license", None) or "not stated"))[:_MAX_LICENSE]
        title = sanitize_line(f"{repository}: {model.name}, {format_size(model.size_bytes)}")
        write(f"{title}; license: {license_name}\n")
        if projector := _find_projector(files, model):
            size = format_size(projector.size_bytes)
            write(
                f"For pictures, {size} more: rkllm-chat models pull {sanitize_line(f'{repository}:{projector.path}')}\n"
            )
        folder.mkdir(parents=True, exist_ok=True)
        for file in (*_find_sidecars(files, model), model):
            _download(file, repository, info.sha, folder / file.name, is_kept=file is not model)
    return folder / model.name


def make_pull_command(reference: str, models_folder: str) -> list[str]:
    """Return the command of a process that calls `pull_model`, and ends when its standard input does.

    It writes texts for the user to standard output, and an error to standard error; its exit code is REFUSED where the
    reference or the Hub is the cause.
    """
    return run_module(__name__, reference, models_folder)


def _run(reference: str, models_folder: str) -> int:
    """Download a model for the process that holds standard input open."""

    def end_with_input() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock would be held at exit
            pass
        os._exit(1)

    threading.Thread(target=end_with_input, daemon=True).start()
    try:
        pull_model(reference, models_folder, write_output)
    except ChatError as error:
        sys.stderr.write(f"{error.message}\n")
        return REFUSED if isinstance(error, UsageError | ConnectError | AuthError) else 1
    return 0


def _read_info(repository: str) -> tuple[Any, list[_RemoteFile]]:
    """Return what the Hub tells of a repository, and its files."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(repository, files_metadata=True, timeout=_TIMEOUT_S)
        return info, list(_list_files(info))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, OSError):
            raise
        raise ProtocolError(f"Hugging Face does not tell what {repository} contains: {error!r:.200}.") from error


def _list_files(info: Any) -> Iterator[_RemoteFile]:
    """Yield the files of a repository whose size and checksum are known; checksums become parts of file names."""
    for file in info.siblings or ():
        sha256 = file.lfs.sha256 if file.lfs else ""
        has_checksum = _SHA256.fullmatch(sha256) if sha256 else _BLOB_ID.fullmatch(file.blob_id or "")
        has_size = isinstance(file.size, int) and file.size >= 0
        if PurePosixPath(file.rfilename).name.isprintable() and has_size and has_checksum:
            yield _RemoteFile(file.rfilename, file.size, sha256, file.blob_id or "")


def _choose_model(files: list[_RemoteFile], repository: str, name: str) -> _RemoteFile:
    """Return the model of that name or path; without a name the only one."""
    named = [file for file in files if file.name.endswith(MODEL_SUFFIXES) and not file.name.startswith(".")]
    models = [file for file in named if not is_projector(file.name)]
    found = [file for file in named if name == file.path] or [file for file in named if name == file.name]
    found = found if name else models
    if len(found) == 1 and not _PARTS.search(found[0].name):
        return found[0]
    if not models:
        raise UsageError(f"{repository} has no .gguf or .rkllm file.")
    if len(found) == 1:
        raise UsageError(f"{sanitize_line(found[0].path)} is a part of a model; models in parts are not supported.")
    listed = [sanitize_line(f"{file.path} ({format_size(file.size_bytes)})") for file in models]
    rest = f" and {len(listed) - _MAX_NAMES} more" if len(listed) > _MAX_NAMES else ""
    problem = f'{repository} has no model "{sanitize_line(name)}"' if name else f"{repository} has {len(models)} models"
    hint = f"Write {repository}:FILE with one of: {', '.join(listed[:_MAX_NAMES])}{rest}."
    raise UsageError(f"{problem}.", hint, available=[file.path for file in models])


def _find_projector(files: list[_RemoteFile], model: _RemoteFile) -> _RemoteFile | None:
    """Return the file with which a GGUF model sees pictures; None if it has none, or is one itself."""
    if not model.name.endswith(".gguf") or is_projector(model.name):
        return None
    name = choose_projector(model.name, [file.name for file in files])
    return next((file for file in files if file.name == name), None)


def _find_sidecars(files: list[_RemoteFile], model: _RemoteFile) -> Iterator[_RemoteFile]:
    """Yield what a model for the NPU needs beside it: from its folder, else from the root."""
    if model.name.endswith(".rkllm"):
        by_path = {file.path: file for file in files}
        for name in SIDECARS:
            if file := by_path.get(str(PurePosixPath(model.path).with_name(name))) or by_path.get(name):
                yield file


def _download(file: _RemoteFile, repository: str, revision: str | None, target: Path, *, is_kept: bool) -> None:
    """Download a file unless it is there, continuing an earlier download.

    Args:
        file: The file.
        repository: Its repository.
        revision: Commit of the repository.
        target: Where it appears when it is whole.
        is_kept: Keep a different file of that name, which the user may have changed.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    if target.exists():
        if is_kept or _is_whole(target, file):
            return
        raise StartError(f"{target} exists and is another file.", "Rename or remove it.")
    part = target.with_name(f".{file.name}.{(file.sha256 or file.blob_id)[:16]}.part")
    with _open_locked(part) as stream:
        size = stream.seek(0, os.SEEK_END)
        if size > file.size_bytes:
            size = stream.truncate(0)
        free = shutil.disk_usage(target.parent).free
        if file.size_bytes - size > free:
            needed, there = format_size(file.size_bytes - size), format_size(free)
            raise StartError(f"{file.name} needs {needed} more, and {target.parent} has {there}.", "Free some space.")
        http_get(
            hf_hub_url(repository, file.path, revision=revision),
            cast(BinaryIO, _LimitedStream(stream, file)),
            resume_size=size,
            headers=build_hf_headers(),
            expected_size=file.size_bytes,
            displayed_filename=file.name,
        )
        stream.flush()
        os.fsync(stream.fileno())
        if not _is_whole(part, file):
            part.unlink()
            raise StartError(f"The checksum of {file.name} is wrong; it was discarded.", _LATER)
        part.replace(target)


class _LimitedStream:
    """The part of a file, which gets no more bytes than the file has: a Hub that sends on would fill the disk."""

    def __init__(self, stream: BinaryIO, file: _RemoteFile) -> None:
        self._stream, self._file = stream, file
        self.seek, self.tell, self.truncate = stream.seek, stream.tell, stream.truncate

    def write(self, data: bytes) -> int:
        """Append data. Raises StartError, and forgets the part, if that is more than the file has."""
        if self._stream.tell() + len(data) > self._file.size_bytes:
            self._stream.truncate(0)
            size = format_size(self._file.size_bytes)
            raise StartError(f"Hugging Face sends more than the {size} of {self._file.name}; it was discarded.", _LATER)
        return self._stream.write(data)


@contextmanager
def _open_locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file to append to it, which only one process may do. It is no other file by a link."""
    with open(path, "ab", opener=_open_unlinked) as stream:  # it has no opener
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(f"{path} is being downloaded by another process.", "Wait for its end.") from None
        yield stream


def _open_unlinked(path: str, flags: int) -> int:
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(file)
        raise StartError(f"{path} is a link or no file.", "Remove it.")
    return file


def _is_whole(path: Path, file: _RemoteFile) -> bool:
    """Return whether a file has the size and the checksum of the one in the repository."""
    if path.stat().st_size != file.size_bytes:
        return False
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.size_bytes, usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest() == (file.sha256 or file.blob_id)


def _describe_hub() -> str:
    """Return what models are downloaded from: the mirror that the user named, or Hugging Face."""
    mirror = re.sub("//[^/]*@", "//", os.environ.get("HF_ENDPOINT", ""))
    return f"{sanitize_line(mirror)}, which HF_ENDPOINT names," if mirror else "Hugging Face"


@contextmanager
def _translate_errors(repository: str, models: Path) -> Iterator[None]:
    """Translate the errors of `huggingface_hub` and of the disk.

    Args:
        repository: The repository.
        models: The folder of models, into which the user may copy one.
    """
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        yield
    except GatedRepoError:
        hint = "Accept its license on its page, and set HF_TOKEN to a token of your account."
        raise AuthError(f"{repository} requires that its license is accepted.", hint) from None
    except RepositoryNotFoundError:
        hint = "Check the name; for a private one, set HF_TOKEN."
        raise ConnectError(f"There is no repository {repository}, or it is private.", hint) from None
    except httpx2.UnsupportedProtocol as error:
        text = f"{repository} cannot be downloaded: {_describe_hub()} is no address of the web."
        raise ConnectError(text, "Write HF_ENDPOINT=https://...") from error
    except httpx2.ConnectError as error:
        hint = (
            f"Check the network, name a mirror by HF_ENDPOINT=https://..., or copy a .gguf file into {models}. {_AGAIN}"
        )
        text = f"{repository} cannot be downloaded: {_describe_hub()} cannot be reached from here."
        raise ConnectError(text, hint) from error
    except httpx2.HTTPError as error:
        raise ConnectError(f"{repository} cannot be downloaded: {sanitize_line(str(error))}", _AGAIN) from error
    except OSError as error:
        raise StartError(f"{repository} cannot be stored: {sanitize_line(str(error))}", _AGAIN) from error


if __name__ == "__main__":
    sys.exit(_run(*sys.argv[1:]))
