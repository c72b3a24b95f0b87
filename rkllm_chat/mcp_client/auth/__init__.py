"""OAuth 2.1 logins: `Login` adds tokens to requests and obtains them, `CredentialFile` stores them between sessions."""
