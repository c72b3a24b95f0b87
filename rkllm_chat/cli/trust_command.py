"""Review and trust MCP servers and models for scripts: `rkllm-chat mcp trust NAME ...`.

The command asks the same questions as the chat: how a server is started, which of its tools are new or changed, and
which files of this folder native code would read. No server is started before the user has accepted how it is started.
It also shows what the prompt will list of a server's skills, before the first of them is accepted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ..backends.project_files import list_project_files, review_project_files
from ..chat.server_approval import describe_files, describe_review, describe_rights, store_rights
from ..config.accepted_files import accept_files
from ..config.files import TRUST_VARIABLE
from ..config.loader import load_settings, state_folder
from ..config.policy import find_named_rules
from ..config.project_trust import TrustStore, needs_acceptance
from ..config.secrets import make_redactor
from ..config.servers import ServerConfig, find_server
from ..config.tool_pins import (
    CHAT_OFFERS,
    INSTRUCTIONS,
    RESOURCE_FIELDS,
    TextPins,
    ToolPins,
    diff_accepted_text,
    extract_pinned_fields,
    extract_prompt_fields,
    extract_text,
)
from ..core import i18n
from ..core.errors import ChatError, ConfigError, ProtocolError, UsageError
from ..core.sanitize import escape_visibly, sanitize_for_terminal
from ..mcp_client.acceptance import ReviewedStart, accept, check_start, is_accepted, review_start
from ..mcp_client.direct.open_server import OpenServer, open_as_chat

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..config.tool_pins import PinnedFields

_ACCEPTED, _DECLINED = 0, 1
_HINT = "Run this command at a terminal, or add --yes to approve what it shows."
_HINT += f" {TRUST_VARIABLE}=1 trusts all folders' servers, for build machines."


def review_servers(options: argparse.Namespace) -> int:
    """Ask about the named servers and files; returns 1 if the user declined one or its tools. Raises ChatError.

    Of several servers, one that fails is reported, and the others are reviewed.
    """
    settings = load_settings(options.config)
    files = {name for name in (settings.model, settings.mmproj) if name and list_project_files(settings)}
    servers = [find_server(name, settings.servers, settings.skipped) for name in options.names if name not in files]
    trust_store = TrustStore(str(state_folder()))
    confirm_shown = (lambda _question: True) if options.yes else confirm
    if files & set(options.names) and not _review_files(settings, trust_store, confirm_shown):
        return _DECLINED
    if len(servers) == 1:
        return _review_server(servers[0], trust_store, confirm_shown, _list_allowed(settings, trust_store, options.yes))
    codes = []
    for server in servers:
        try:
            allow = _list_allowed(settings, trust_store, options.yes)
            codes.append(_review_server(server, trust_store, confirm_shown, allow))
        except ChatError as error:  # the others are reviewed all the same
            redacted = make_redactor(server, server, os.environ).redact_error(error)
            print(sanitize_for_terminal(str(redacted)), file=sys.stderr)
            codes.append(error.exit_code)
    return max(codes, default=_ACCEPTED)


class _Allowed(NamedTuple):
    """The patterns of `allow` in force.

    Attributes:
        patterns: The patterns.
        is_asked: Whether the user can be asked about them: `--yes` approves what a server does, and no rights.
    """

    patterns: tuple[str, ...]
    is_asked: bool


def _list_allowed(settings: Settings, trust_store: TrustStore, is_unasked: bool) -> _Allowed:
    return _Allowed((*settings.policy.allow, *trust_store.read_rules()["allow"]), not is_unasked)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the servers and the answer."""
    parser.add_argument("names", metavar="NAME", nargs="+", help="a configured server, or this folder's model")
    parser.add_argument("-y", "--yes", action="store_true", help="approve what is shown without asking, for scripts")


def _review_files(settings: Settings, trust_store: TrustStore, confirm: Callable[[str], bool]) -> bool:
    """Ask about the files of this folder that native code would read; return whether they are accepted."""
    translate = i18n.load()
    if review := review_project_files(settings, trust_store):
        _print_lines(describe_files(review, translate))
        if not confirm(translate("trust.read")):
            return False
        accept_files(review, trust_store)
        _check_saved(trust_store)
    _print_lines([translate("trust.files_approved")])
    return True


def _review_server(
    server: ServerConfig, trust_store: TrustStore, confirm: Callable[[str], bool], allow: _Allowed
) -> int:
    """Ask about the start of one server, what rights it has, then about its new and changed tools.

    Raises:
        ConfigError: The decision cannot be saved.
    """
    translate = i18n.load()
    review = review_start(server)
    if needs_acceptance(server) and not is_accepted(trust_store, review):
        if not confirm_starts([review], translate("trust.start"), confirm, allow.patterns):
            return _DECLINED
        accept(trust_store, review)
        _check_saved(trust_store)
    if needs_acceptance(server) and (rules := find_named_rules(allow.patterns, server.name)):
        if not allow.is_asked:
            _print_lines([translate("trust.no_rights", rules=", ".join(rules), server=server.name, file=server.source)])
        elif confirm(sanitize_for_terminal(describe_rights(server, rules, translate))):
            store_rights(trust_store, rules)
    if review.problem:
        raise review.problem
    server = check_start(trust_store, server)  # what a link leads to may have changed while the user was reading
    with open_as_chat(server) as opened:
        tools = {str(tool["name"]): extract_pinned_fields(tool) for tool in opened.list_all_tools()}
        texts = _list_texts(opened)
        if reason := opened.client.no_sandbox:
            _print_lines([translate("sandbox.why", server=server.name, reason=reason)])
    if not _review_descriptions(server, trust_store, tools, texts, confirm):
        return _DECLINED
    _print_lines([translate("review.accepted", server=server.name)])
    return _ACCEPTED


def confirm_starts(
    reviews: Iterable[ReviewedStart], question: str, confirm: Callable[[str], bool], allow: Iterable[str] = ()
) -> bool:
    """Show how servers would be started and ask whether they may: at the first start, or before they are written.

    Args:
        reviews: The servers.
        question: The question about all of them.
        confirm: Asks it.
        allow: The patterns of `allow` in force.
    """
    translate = i18n.load()
    for review in reviews:
        _print_lines(describe_review(review, translate, allow))
    return confirm(question)


def _review_descriptions(
    server: ServerConfig,
    trust_store: TrustStore,
    tools: Mapping[str, PinnedFields],
    texts: Mapping[str, Mapping[str, PinnedFields]],
    confirm: Callable[[str], bool],
) -> bool:
    """Show what is new or has changed in what a server says, and ask; return whether all of it is accepted."""
    translate = i18n.load()
    pins, text_pins = ToolPins(trust_store, server, offers=CHAT_OFFERS), TextPins(trust_store, server)
    with trust_store.edit():
        unapproved = pins.pin_on_first_use(tools)
        if texts.get("skills") and not (skill_pins := ToolPins(trust_store, server, "skills")).has_pins():
            skill_pins.pin_tools({})  # at the first contact, too, all are new
        withheld = {section: text_pins.find_withheld(section, fields) for section, fields in texts.items()}
    for name, status in unapproved.items():
        reason = translate(f"hidden.{status}")
        _print_lines([translate("servers.hidden", server=server.name, tool=name, reason=reason)])
        _print_lines(escape_visibly(line) for line in diff_accepted_text(pins.accepted_text(name), tools[name]))
    for section, reasons in withheld.items():
        for name, status in reasons.items():
            reason = translate(f"hidden.{status}")
            _print_lines([translate(f"review.{section}", server=server.name, name=name, reason=reason)])
            _print_lines(escape_visibly(line) for line in text_pins.diff_accepted((section, name)))
    if unapproved or text_pins.withheld:
        if not confirm(translate("review.accept", server=server.name)):
            return False
        with trust_store.edit():
            pins.pin_tools(tools)
            text_pins.accept()
    _check_saved(trust_store)
    return True


def _check_saved(trust_store: TrustStore) -> None:
    """Raise ConfigError if what the user has decided would be forgotten at the end of this command."""
    if not trust_store.is_saved:
        text = f"The decision cannot be saved: {state_folder()} is not writable."
        raise ConfigError(text, "Make room there, or correct its permissions.", path=str(state_folder()))


def _list_texts(opened: OpenServer) -> dict[str, dict[str, PinnedFields]]:
    """Return the texts of a server by section and name, of the sections that it has."""
    said = opened.client.instructions.strip()
    texts: dict[str, dict[str, PinnedFields]] = {}
    if said:
        texts[INSTRUCTIONS] = {INSTRUCTIONS: extract_text({"description": said}, "description")}
    with suppress(ProtocolError):  # a server may have such a capability and no list
        texts["prompts"] = {str(entry.get("name")): extract_prompt_fields(entry) for entry in opened.list_all_prompts()}
    with suppress(ProtocolError):
        listed = [*opened.list_resources(), *opened.list_templates()]
        texts["resources"] = {
            str(entry.get("uri") or entry.get("uriTemplate")): extract_text(entry, *RESOURCE_FIELDS) for entry in listed
        }
    with suppress(ProtocolError):
        if entries := opened.list_skills():
            from ..mcp_client.skills import describe_entries

            texts["skills"] = describe_entries(entries, opened.server.name)
    return texts


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines without control characters."""
    for line in lines:
        print(sanitize_for_terminal(line))


def confirm(question: str, hint: str = _HINT) -> bool:
    """Ask a yes-or-no question at the terminal. Raises UsageError if standard input is no terminal."""
    if not sys.stdin or not sys.stdin.isatty():
        raise UsageError("Approval needs a terminal, and standard input is not one.", hint)
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
