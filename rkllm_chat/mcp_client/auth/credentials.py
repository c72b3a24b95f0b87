"""Store logins between sessions: OAuth tokens and the client's registration, one file per login.

Files have mode 0600 in a folder of mode 0700 and are replaced atomically; symbolic links are not followed.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel, ConfigDict, ValidationError

from ...config.settings import ServerConfig
from ...core.errors import AuthError
from ...core.file_writes import replace_in_folder
from ...core.private_files import ensure_private, make_folder, open_folder
from .login_files import login_file_name

_LOCK_S = 30.0
_LOCK_POLL_S = 0.05
MAX_FILE_BYTES = 1 << 20
# O_NONBLOCK: a FIFO in place of the file would wait for a writer
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_RENEW_EARLY_S = 10.0

log = logging.getLogger(__name__)


class StoredLogin(BaseModel):
    """A stored login; also the SDK's `TokenStorage` while a login runs.

    Attributes:
        server: URL of the server, for people who read the file.
        tokens: Access and refresh token.
        stale_at: When the access token must be renewed, in seconds since 1970; None means never.
        client: The client's registration at the authorization server.
        issuer: The authorization server that the server named.
        metadata: Metadata of the authorization server.
        resource: Metadata of the protected resource.
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
        return f"StoredLogin(server={self.server!r})"

    __str__ = __repr__

    @property
    def access_token(self) -> str:
        """The access token, or ""."""
        return self.tokens.access_token if self.tokens else ""

    @property
    def refresh_token(self) -> str:
        """The refresh token, or ""."""
        return (self.tokens.refresh_token or "") if self.tokens else ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """All values that must be masked in output and logs."""
        client = self.client.client_secret if self.client else None
        return (self.access_token, self.refresh_token, client or "")

    @property
    def is_stale(self) -> bool:
        """Whether the access token must be renewed."""
        return self.stale_at is not None and time.time() >= self.stale_at

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; part of `TokenStorage`."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens; they count as stale shortly before they expire, so that none expires in transit."""
        lifetime_s = tokens.expires_in
        self.tokens = tokens
        self.stale_at = None if lifetime_s is None else time.time() + lifetime_s - min(_RENEW_EARLY_S, lifetime_s / 10)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration; part of `TokenStorage`."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registration; part of `TokenStorage`."""
        self.client = client_info


class CredentialFile:
    """The credential file of one server; in memory without a folder, or if the folder is not writable.

    Attributes:
        damaged_path: Path to which an unreadable file was moved, or "".
    """

    def __init__(self, folder: Path | None, server: ServerConfig) -> None:
        self._folder, self._name = folder, login_file_name(server)
        self._memory: StoredLogin | None = StoredLogin() if folder is None else None
        self.damaged_path = ""

    @property
    def path(self) -> Path | None:
        """The path of the file; None if there is no folder."""
        return self._folder / self._name if self._folder else None

    def read(self) -> StoredLogin:
        """Return the stored login, or an empty one. Raises AuthError if the file is not this user's regular file."""
        if self._memory is not None:
            return self._memory.model_copy()
        assert self._folder
        try:
            with open_folder(self._folder) as folder:
                content = self._read(folder)
        except FileNotFoundError:
            return StoredLogin()
        except OSError as error:
            return self._use_memory(error, StoredLogin())
        return self._parse(content)

    def _parse(self, content: bytes) -> StoredLogin:
        try:
            return StoredLogin.model_validate_json(content)
        except ValidationError:
            self._move_damaged()
            return StoredLogin()

    def _use_memory(self, error: OSError, login: StoredLogin) -> StoredLogin:
        """Continue in memory only."""
        log.warning("The login is kept in memory only: %s: %s", self.path, error.strerror)
        self._memory = login.model_copy()
        return login

    def _read(self, folder: int) -> bytes:
        try:
            with os.fdopen(os.open(self._name, _READ_FLAGS, dir_fd=folder), "rb") as file:
                ensure_private(file.fileno(), self._name, stat.S_IFREG)
                return file.read(MAX_FILE_BYTES)
        except FileNotFoundError:
            raise
        except OSError as error:
            text = f"The stored login cannot be read: {self.path}: {error.strerror}."
            raise AuthError(text, "It must be a regular file that you own. Remove it and log in again.") from None

    def _move_damaged(self) -> None:
        assert self.path
        damaged = self.path.with_suffix(".damaged")
        self.path.replace(damaged)
        self.damaged_path = str(damaged)
        log.warning("The stored login is damaged; it was moved to %s", damaged)

    def write(self, login: StoredLogin) -> None:
        """Replace the file; on failure, keep the login in memory."""
        if self._memory is not None or not self._folder:
            self._memory = login.model_copy()
            return
        try:
            make_folder(self._folder)
            with open_folder(self._folder) as folder:
                replace_in_folder(folder, self._name, login.model_dump_json(exclude_none=True).encode())
        except OSError as error:
            self._use_memory(error, login)

    def remove(self) -> bool:
        """Delete the file; return whether there was a login. Raises AuthError if it cannot be deleted."""
        if self._memory is not None:
            previous, self._memory = self._memory, StoredLogin()
            return bool(previous.access_token)
        assert self._folder
        try:
            with open_folder(self._folder) as folder:
                os.unlink(self._name, dir_fd=folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise AuthError(f"The stored login cannot be deleted: {self.path}: {error.strerror}.") from None
        return True

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Hold an exclusive lock across processes. Raises AuthError if it is not available for 30 s."""
        if self._memory is not None:
            yield
            return
        with self._open_lock() as lock:
            if lock is not None:
                await self._acquire(lock)
            yield

    @contextmanager
    def _open_lock(self) -> Iterator[int | None]:
        """Open the lock file; None if nothing can be written, so that there is nothing to protect."""
        lock: int | None = None
        assert self._folder
        with suppress(OSError), open_folder(self._folder) as folder:
            # a file of its own: the login's is replaced, and a lock on the old one keeps nobody out of the new one
            lock = os.open(f"{self._name}.lock", _LOCK_FLAGS, 0o600, dir_fd=folder)
        try:
            yield lock
        finally:
            if lock is not None:
                os.close(lock)

    async def _acquire(self, lock: int) -> None:
        end = time.monotonic() + _LOCK_S
        while True:
            try:
                # polled, since a wait for the lock would hold the event loop, or a thread that nothing ends
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    text = f"Another program has held {self.path}.lock for {_LOCK_S:g} s."
                    raise AuthError(text, "Check whether another chat with the same server hangs.") from None
            await asyncio.sleep(_LOCK_POLL_S)
