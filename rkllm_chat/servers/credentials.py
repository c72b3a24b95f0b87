"""What is kept of a login between two sittings: tokens and the client's registration, one file per login.

Files are 0600 in a folder that is 0700, written whole or not at all, and no link is followed.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import logging
import os
import secrets
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel, ConfigDict, ValidationError

from ..config import ServerConfig
from ..errors import AuthError
from ..private import make_folder

LOCK_S = 30.0
LOOK_AGAIN_S = 0.05
LARGEST = 1 << 20
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
EARLY_S = 10.0

log = logging.getLogger(__name__)


class NoFolderError(OSError):
    """There is something else in the place of the folder, or it is not to be opened."""


class Kept(BaseModel):
    """A login's outcome, and the SDK's `TokenStorage` while one runs. `stale_at` is when the access token is to be
    renewed, in seconds since 1970; None is never. `issuer` is the authorization server that the server named.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    server: str = ""
    tokens: OAuthToken | None = None
    stale_at: float | None = None
    client: OAuthClientInformationFull | None = None
    issuer: str | None = None
    metadata: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None

    def __repr__(self) -> str:
        return f"Kept(server={self.server!r})"

    __str__ = __repr__

    @property
    def access(self) -> str:
        return self.tokens.access_token if self.tokens else ""

    @property
    def refresh(self) -> str:
        return (self.tokens.refresh_token or "") if self.tokens else ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What of it must be told nobody."""
        client = self.client.client_secret if self.client else None
        return (self.access, self.refresh, client or "")

    @property
    def is_stale(self) -> bool:
        return self.stale_at is not None and time.time() >= self.stale_at

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """A token is stale a little before it expires, so that it does not on its way."""
        lasts_s = tokens.expires_in
        self.tokens = tokens
        self.stale_at = None if lasts_s is None else time.time() + lasts_s - min(EARLY_S, lasts_s / 10)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class CredentialFile:
    """The file of one server. Without a folder, or with one that cannot be written, what is kept is kept in memory.

    `damaged` is where a file was put aside that could not be read.
    """

    def __init__(self, folder: Path | None, server: ServerConfig) -> None:
        self._folder, self._name = folder, name_file(server)
        self._memory: Kept | None = Kept() if folder is None else None
        self.damaged = ""

    @property
    def path(self) -> Path | None:
        return self._folder / self._name if self._folder else None

    def read(self) -> Kept:
        """Raises AuthError for what is no file of this user."""
        if self._memory is not None:
            return self._memory.model_copy()
        try:
            with self._open_folder() as folder:
                return self._understand(self._read(folder))
        except FileNotFoundError:
            return Kept()
        except NoFolderError as error:
            return self._give_up(error, Kept())
        except OSError as error:
            text = f"What is kept of a login cannot be read: {self.path}: {error.strerror}."
            raise AuthError(text, "It must be a file of yours, and no link; remove it.") from None

    def _understand(self, content: bytes) -> Kept:
        try:
            return Kept.model_validate_json(content)
        except ValidationError:
            self._put_aside()
            return Kept()

    def _give_up(self, error: OSError, kept: Kept) -> Kept:
        """From here on, what is kept is kept in memory alone."""
        log.warning("A login is kept for this sitting only: %s: %s", self.path, error.strerror)
        self._memory = kept.model_copy()
        return kept

    def _read(self, folder: int) -> bytes:
        with os.fdopen(os.open(self._name, READ, dir_fd=folder), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise PermissionError(1, "it is not a file of this user")
            os.fchmod(file.fileno(), 0o600)
            return file.read(LARGEST)

    def _put_aside(self) -> None:
        assert self.path
        aside = self.path.with_suffix(".damaged")
        self.path.replace(aside)
        self.damaged = str(aside)
        log.warning("What was kept of a login is damaged; it was put aside as %s", aside)

    def write(self, kept: Kept) -> None:
        """Replaces the file; where that fails, remembers it for this sitting."""
        if self._memory is not None or not self._folder:
            self._memory = kept.model_copy()
            return
        try:
            make_folder(self._folder)
            with self._open_folder() as folder:
                self._write(folder, kept.model_dump_json(exclude_none=True).encode())
        except OSError as error:
            self._give_up(error, kept)

    def _write(self, folder: int, content: bytes) -> None:
        temporary = f".{self._name}.{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(temporary, CREATE, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)

    def remove(self) -> bool:
        """Whether there was something to remove. Raises AuthError if it cannot be."""
        if self._memory is not None:
            was, self._memory = self._memory, Kept()
            return bool(was.access)
        try:
            with self._open_folder() as folder:
                os.unlink(self._name, dir_fd=folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise AuthError(f"The login cannot be forgotten: {self.path}: {error.strerror}.") from None
        return True

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """No other process has this at the same time. Raises AuthError if one has it for too long."""
        if self._memory is not None:
            yield
            return
        with self._open_lock() as lock:
            if lock is not None:
                await self._wait_for(lock)
            yield

    @contextmanager
    def _open_lock(self) -> Iterator[int | None]:
        """None where nothing can be written, so that nothing is to be guarded."""
        lock: int | None = None
        with suppress(OSError), self._open_folder() as folder:
            lock = os.open(f"{self._name}.lock", LOCK, 0o600, dir_fd=folder)
        try:
            yield lock
        finally:
            if lock is not None:
                os.close(lock)

    async def _wait_for(self, lock: int) -> None:
        end = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    text = f"Another program has held {self.path}.lock for {LOCK_S:g} s."
                    raise AuthError(text, "Is a chat with the same server stuck?") from None
            await asyncio.sleep(LOOK_AGAIN_S)

    @contextmanager
    def _open_folder(self) -> Iterator[int]:
        """Raises FileNotFoundError if it is not there, and NoFolderError if it is no folder of this user."""
        assert self._folder
        try:
            folder = os.open(self._folder, FOLDER)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise NoFolderError(error.errno, error.strerror) from None
        try:
            if stat.S_IMODE(os.fstat(folder).st_mode) != 0o700:
                os.fchmod(folder, 0o700)
            yield folder
        finally:
            os.close(folder)


def name_file(server: ServerConfig) -> str:
    """Another URL, another client or another grant is another login."""
    whole = "\n".join((server.url, server.oauth.grant, server.oauth.client_id))
    host = "".join(one if one.isalnum() or one in ".-" else "_" for one in urlsplit(server.url).hostname or "")
    return f"{host[:64]}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}.json"
