"""Every place of the package that writes, creates, renames or removes a file, and whose folder it can be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "rkllm_chat"
WRITING_FLAGS = re.compile(r"O_(WRONLY|RDWR|CREAT|APPEND|TRUNC)")
READING_FLAGS = re.compile(r"O_(RDONLY|DIRECTORY)")
CHANGES = {
    "chmod",
    "fchmod",
    "ftruncate",
    "hardlink_to",
    "link",
    "makedirs",
    "mkdir",
    "mkfifo",
    "mknod",
    "rmdir",
    "symlink",
    "symlink_to",
    "touch",
    "truncate",
    "unlink",
    "utime",
    "write_bytes",
    "write_text",
}
"""Methods of `os`, of paths and of files."""
MODULES = {
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree"},
    "tempfile": {"mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"},
}
OURS = {
    "create_file",
    "edit_config",
    "edit_file",
    "lock_edits",
    "lock_file",
    "make_folder",
    "replace_file",
    "replace_in_folder",
    "write_export",
    "write_media_file",
    "write_new_file",
    "write_numbered_file",
}
CLASSES = {"FileHandler", "FileHistory", "RotatingFileHandler", "mkdtemp"}
NOT_FILES = {"self._engine.truncate", "self.style.write_text", "planner.write_text"}


STATE, CONFIG, DATA, PROJECT = "the user's state", "the user's configuration", "the user's data", "a project"
CHOSEN, TEMPORARY, KERNEL = "chosen by the user", "temporary", "of the kernel"
ANY = "the caller's"
PLACES = {
    # what writes, in which the path comes from the caller: each of them is a row, too
    "core/file_writes: replace_file": (ANY, "replace_in_folder"),
    "core/file_writes: replace_in_folder": (ANY, "replace unlink"),
    "core/file_writes: _write_new": (ANY, "fchmod open os.open unlink"),
    "core/file_writes: lock_edits": (STATE, "lock_file make_folder"),
    "core/file_writes: lock_file": (STATE, "open_private"),
    "core/file_writes: FileEdit.write": (ANY, "replace_in_folder"),
    "core/file_writes: FileEdit._remove_leftovers": (ANY, "unlink"),
    "core/file_writes: edit_file": (ANY, "lock_edits"),
    "core/file_writes: _open_parent": (ANY, "make_folder"),
    "core/file_writes: _open_inner": (PROJECT, "mkdir"),
    "core/private_files: make_folder": (ANY, "mkdir"),
    "core/private_files: open_private": (ANY, "os.open"),
    "core/private_files: ensure_private": (ANY, "fchmod"),
    "config/files: _open_without_waiting": (PROJECT, "os.open"),  # opens only to read
    "mcp_client/process/sandbox_paths: _open_without_waiting": (PROJECT, "os.open"),  # opens only to read
    "cli/doctor/access: _can_open": (KERNEL, "os.open"),  # writes nothing
    # a folder of somebody else
    "config/editor: edit_config": (f"{PROJECT}, {CONFIG}", "edit_file"),
    "config/editor: add_server": (f"{PROJECT}, {CONFIG}", "edit_config"),
    "config/editor: remove_server": (f"{PROJECT}, {CONFIG}", "edit_config"),
    "config/editor: set_enabled": (f"{PROJECT}, {CONFIG}", "edit_config"),
    "config/editor: save_setting": (f"{PROJECT}, {CONFIG}", "edit_config"),
    "cli/mcp_install: install_server": (f"{PROJECT}, {CONFIG}", "edit_config"),
    "mcp_client/process/protected_paths: create_missing": (f"{PROJECT}, {CONFIG}", "create_file make_folder mkdir"),
    # configuration, data and state of the user
    "config/sandbox_rules: save_allowance": (STATE, "lock_edits"),
    "config/sandbox_rules: _remove_row": (CONFIG, "replace_file"),
    "cli/model_download: pull_model": (DATA, "mkdir"),
    "cli/model_download: _download": (DATA, "replace truncate unlink"),
    "cli/model_download: _LimitedStream.write": (DATA, "truncate"),
    "cli/model_download: _open_locked": (DATA, "open"),
    "cli/model_download: _open_unlinked": (DATA, "os.open"),
    "mcp_client/process/sandbox_paths: SandboxPaths._add_cache": (DATA, "makedirs"),
    "backends/llama/state_cache: mark_complete": (STATE, "open"),  # of PromptCacheFiles, as what llama.cpp writes
    "backends/llama/trial_load: _write_record": (STATE, "make_folder replace_file unlink"),
    "backends/rkllm/worker_client: WorkerClient.__init__": (STATE, "open open_private"),
    "backends/rkllm/worker_client: _open_log": (STATE, "make_folder replace"),
    "backends/shared/prompt_cache_files: PromptCacheFiles.find": (STATE, "utime"),
    "backends/shared/prompt_cache_files: PromptCacheFiles.save": (STATE, "make_folder"),
    "backends/shared/prompt_cache_files: PromptCacheFiles.remove": (STATE, "unlink"),
    "backends/shared/prompt_cache_files: PromptCacheFiles._write": (STATE, "open_private replace unlink"),
    "backends/shared/prompt_cache_files: PromptCacheFiles._prune": (STATE, "unlink"),
    "backends/shared/reply_tokens: write_replies": (STATE, "replace_file unlink"),
    "cli/mcp_tool/schema_cache: save_tools": (STATE, "make_folder replace_file"),
    "config/project_trust: TrustStore.edit": (STATE, "lock_edits"),
    "config/project_trust: TrustStore._write": (STATE, "make_folder replace_in_folder"),
    "mcp_client/auth/credentials: CredentialFile._move_damaged": (STATE, "replace"),
    "mcp_client/auth/credentials: CredentialFile.write": (STATE, "make_folder replace_in_folder"),
    "mcp_client/auth/credentials: CredentialFile.remove": (STATE, "unlink"),
    "mcp_client/auth/credentials: CredentialFile._open_lock": (STATE, "os.open"),
    "mcp_client/direct/known_versions: note_stateless": (STATE, "make_folder replace_file"),
    "mcp_client/process/kept_files: create_kept_files": (STATE, "make_folder replace_file"),
    "mcp_client/process/kept_files: create_new_files": (DATA, "create_file"),  # a link there counts as existing
    "mcp_client/process/sandbox: _cache_probe": (STATE, "make_folder replace_file"),
    "mcp_client/transports/server_log: _create_file": (STATE, "make_folder os.open unlink"),
    "mcp_servers/claude/__init__: _make_empty_folder": (STATE, "make_folder rmtree"),
    "mcp_servers/claude/history: RunHistory.update": (STATE, "lock_file make_folder"),
    "mcp_servers/claude/history: RunHistory._write": (STATE, "replace_file"),
    "mcp_servers/claude/history: RunHistory._move_damaged": (STATE, "replace"),
    "mcp_servers/http: load_token": (STATE, "lock_edits make_folder replace_file"),
    "storage/local_statistics: ToolUsage.clear": (STATE, "unlink"),
    "storage/local_statistics: _change_object": (STATE, "lock_edits replace_file"),
    "storage/session_files: SessionDirectory.create": (STATE, "make_folder"),
    "storage/session_files: SessionDirectory.delete": (STATE, "rmtree unlink"),
    "storage/session_files: SessionDirectory.limit_states": (STATE, "rmtree"),
    "storage/session_files: SessionDirectory.rename": (STATE, "utime"),
    "storage/session_files: SessionDirectory._repair_last_line": (STATE, "ftruncate"),
    "storage/session_files: SessionDirectory._open": (STATE, "open_private"),
    "storage/session_files: _store_media": (STATE, "write_media_file"),
    "storage/session_files: _append": (STATE, "ftruncate"),
    "tui/repl: _open_history": (STATE, "make_folder open_private"),
    # where the user says
    "storage/log_file: LogFile._open": (f"{STATE}, {CHOSEN}", "open_private"),
    "storage/log_file: LogFile._rotate": (f"{STATE}, {CHOSEN}", "replace"),
    "core/numbered_files: write_numbered_file": (f"{CHOSEN}, {TEMPORARY}", "create_file makedirs"),
    "chat/attachments: save_media": (CHOSEN, "write_numbered_file"),
    "cli/json_commands/output_files: _save_block": (f"{CHOSEN}, {TEMPORARY}", "write_numbered_file"),
    "cli/new_project: _new_files": (CHOSEN, "create_file mkdir rmdir unlink"),
    "cli/sessions_command: _export": (CHOSEN, "write_export"),
    "storage/export/__init__: write_export": (CHOSEN, "write_new_file"),
    "storage/export/__init__: write_new_file": (CHOSEN, "create_file"),
    "tui/slash_commands/pictures: _save": (CHOSEN, "write_new_file"),
    "tui/slash_commands/sessions: export_session": (CHOSEN, "write_export"),
    # folders with a random name and mode 0700
    "cli/mcp_tool/call_tool: format_result": (TEMPORARY, "mkdtemp"),
    "mcp_client/direct/connection_client: ConnectionClient.__init__": (TEMPORARY, "mkdtemp"),
    "mcp_client/direct/connection_client: ConnectionClient.close": (TEMPORARY, "rmdir unlink"),
    "storage/media: MediaStore.close": (TEMPORARY, "rmtree"),
    "storage/media: MediaStore._add": (TEMPORARY, "mkdtemp write_media_file"),
    "storage/media: MediaStore._remove_oldest": (TEMPORARY, "unlink"),
    "storage/media: write_media_file": (f"{STATE}, {TEMPORARY}", "make_folder replace_file"),
    "tui/external_programs: _open_text": (TEMPORARY, "TemporaryDirectory write_text"),
    "backends/llama/trial: main": (KERNEL, "write_text"),
}
"""Function -> whose folder it can be, and what it calls there.

Whoever adds a row says why it needs another way than the functions of `core/file_writes`: in a folder of a project, it
must not, and a test below holds that.
"""
SAFE_IN_A_PROJECT = {"create_file", "edit_config", "edit_file", "make_folder", "mkdir"}
"""They open no name that existed before, or follow no link: mkdir(2) does not."""


def test_every_place_that_changes_files_is_listed_with_the_owner_of_the_folder() -> None:
    listed = {where: calls for where, (_, calls) in PLACES.items()}
    assert collect() == listed, "PLACES says whose folder it is: add, change or remove the row"


def test_nothing_in_a_folder_of_a_project_is_written_in_another_way() -> None:
    unsafe = {
        where: calls
        for where, (owner, calls) in PLACES.items()
        if PROJECT in owner and "_open_without_waiting" not in where and not SAFE_IN_A_PROJECT.issuperset(calls.split())
    }
    assert unsafe == {}


def find_constants(tree: ast.Module) -> dict[str, str]:
    return {
        node.targets[0].id: ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def describe_write(call: ast.Call, constants: dict[str, str]) -> str:
    """The name of what a call does to files; "" if it changes none."""
    function = ast.unparse(call.func)
    base, _, name = function.rpartition(".")
    arguments = [ast.unparse(arg) for arg in call.args] + [ast.unparse(keyword.value) for keyword in call.keywords]
    if function in NOT_FILES or "os.devnull" in arguments:
        return ""
    if name == "open_private" or function == "os.open":
        flags = arguments[1] if arguments[1:] else "O_APPEND"
        flags = re.sub(r"\w+", lambda word: constants.get(word[0], word[0]), flags)
        return "" if READING_FLAGS.search(flags) and not WRITING_FLAGS.search(flags) else function
    if name == "open":
        modes = [argument for argument in arguments if re.fullmatch(r"'[rwaxbt+]+'", argument)]
        return name if any(set(mode) & set("wax+") for mode in modes) else ""
    if name in ("replace", "rename"):
        is_path = bool(base) and len(arguments) == 1 and not call.keywords
        return function.rpartition(".")[2] if is_path or base == "os" else ""
    is_change = base and name in CHANGES
    if is_change or name in MODULES.get(base, ()) or function == "os.remove" or name in CLASSES | OURS:
        return name
    return ""


def find_writes(path: Path) -> Iterator[tuple[str, str]]:
    """Each function of a module that changes files, and what it calls."""
    module = path.relative_to(PACKAGE).with_suffix("").as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = find_constants(tree)

    def visit(node: ast.AST, inside: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            where = inside
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                where = f"{inside}.{child.name}".lstrip(".")
            if isinstance(child, ast.Call) and (name := describe_write(child, constants)):
                yield f"{module}: {inside}", name
            yield from visit(child, where)

    yield from visit(tree, "")


def collect() -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for where, name in find_writes(path):
            found.setdefault(where, []).append(name)
    return {where: " ".join(sorted(set(names))) for where, names in found.items()}
