"""OAuth 2.1 logins: `Login` adds tokens to requests and obtains them, `CredentialFile` stores them between sessions."""

from __future__ import annotations

from .credentials import CredentialFile, StoredLogin
from .login import Login

__all__ = ["CredentialFile", "Login", "StoredLogin"]
