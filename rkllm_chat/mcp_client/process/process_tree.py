"""Start, find, signal and guard a server's process with all its children.

A child is recognized by its process group, or by a mark in its environment, which a daemon that left the group retains.
In a sandbox all are descendants of bubblewrap: its first process inside becomes the parent of daemons. Where there is
no /proc, as on macOS, only the group is known.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from .start import GUARD_SCRIPT, MARK_VARIABLE, StartPlan, decode_exit_code

_JOIN_S = 1.0
_WRAP_S = 2.0
_START_TIME = 19
"""Place in `read_stat` of when a process was started, in clock ticks after the boot."""
GRACE_S = 1.0
"""How long a server may take to end by itself, and again after SIGTERM."""

# Python ignores the first two, and whoever started this program may ignore others; a server would inherit that
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ProcessTree:
    """A process that leads a group, and its children.

    Args:
        pid: Number of the process; in a sandbox, the sandbox's.
        mark: The variable in the environment of all of them, as "NAME=value".
        is_sandboxed: Whether the process is bubblewrap.
    """

    def __init__(self, pid: int, mark: str, is_sandboxed: bool = False) -> None:
        self.pid = pid
        self._mark, self._is_sandboxed = mark.encode(), is_sandboxed
        self._start, self._known_since = 0, time.monotonic()
        with contextlib.suppress(OSError):
            self._start = int(read_stat(pid)[_START_TIME])

    def list_running(self) -> list[int]:
        """Return the running processes; zombies do not count. Without /proc, the leader stands for its group."""
        if self._is_sandboxed and os.path.exists("/proc/thread-self/children"):  # CONFIG_PROC_CHILDREN
            return list_descendants(self.pid)
        pids = list_pids()
        if pids:
            return [pid for pid in self._select_younger(pids) if self._contains(pid)]
        return [self.pid] if self._has_group() else []

    def _select_younger(self, pids: list[int]) -> list[int]:
        """Leave out processes with lower numbers, which are older: reading all takes 2 ms beside 150 processes.

        Numbers wrap; they have not while the last one that was given is higher, and no machine gives all of them, 32768
        at least, in `_WRAP_S`.
        """
        with contextlib.suppress(OSError, ValueError):
            last = int(_read_file("/proc/loadavg").split()[-1])  # proc(5)
            if last >= self.pid and time.monotonic() - self._known_since < _WRAP_S:
                return [pid for pid in pids if pid >= self.pid]
        return pids

    def _has_group(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
            return False
        return True

    def list_enclosed(self) -> list[int]:
        """Return the running processes inside the sandbox: bubblewrap's first process is outside of its network."""
        return [pid for pid in self.list_running() if pid != self.pid]

    def _contains(self, pid: int) -> bool:
        try:
            state, _, group, *others = read_stat(pid)
            if state == "Z" or int(others[_START_TIME - 3]) < self._start:
                return False
            return int(group) == self.pid or self._mark in _read_file(f"/proc/{pid}/environ")
        except OSError:  # it has ended, or belongs to another user
            return False

    def send_signal(self, number: int) -> bool:
        """Signal all running processes; return whether there were any.

        The process of a sandbox only receives SIGKILL, because it would end with everything inside it.
        """
        if self._is_sandboxed and number != signal.SIGKILL:
            running = self.list_enclosed()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)  # atomically, so that none escapes by forking
            running = self.list_running()
        for pid in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return bool(running)


class ExitWatch:
    """Watch a child for its exit until `close`: by pidfd_open(2), or by a thread where the system has none.

    macOS and Linux before 5.3 have none. The thread waits for the process, so there its number is free once it has
    exited; a number is not given to another process while a process group has it (fork(2) of POSIX).

    Attributes:
        descriptor: Becomes readable when the process has exited.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None
        self._has_pidfd = False
        with contextlib.suppress(AttributeError, OSError):  # no macOS, no Linux before 5.3
            self.descriptor = os.pidfd_open(pid)
            self._has_pidfd = True
        if not self._has_pidfd:
            self._start_thread()

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        if not self._has_pidfd:
            return self._code
        # not reaped (WNOWAIT): while it is a zombie, no other process gets its number
        status = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    def close(self) -> None:
        """Stop watching. The process must have been killed; the caller waits for it."""
        if not self._has_pidfd:
            self._thread.join(_JOIN_S)
        os.close(self.descriptor)

    def _start_thread(self) -> None:
        import threading  # one-shot commands do without it on Linux

        self.descriptor, self._end = os.pipe()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        with contextlib.suppress(ChildProcessError):
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        os.close(self._end)


class ServerProcess(ProcessTree):
    """A server's command with its pipes, its exit and its guard.

    A subclass starts it, and waits in `stop_steps`. Until `close` it stays a zombie, where there is pidfd_open(2).

    Args:
        start: How to start it. Raises OSError if it cannot be started.

    Attributes:
        stdin: Our end of its input pipe, non-blocking; -1 once closed.
        stdout: Our end of its output pipe, non-blocking.
        stderr: Our end of its error pipe, non-blocking.
        exited: Descriptor that becomes readable when the process ends.
        pid: Process number; in a sandbox, the sandbox's.
        sandbox: Its sandbox; None if none is configured.
    """

    def __init__(self, start: StartPlan) -> None:
        value = start.environment[MARK_VARIABLE] = os.urandom(8).hex()
        mark = f"{MARK_VARIABLE}={value}"
        self.sandbox, self._guard = start.sandbox, Guard(mark)
        pipes = [os.pipe() for _ in range(3)]
        (child_stdin, self.stdin), (self.stdout, child_stdout), (self.stderr, child_stderr) = pipes
        ends = (child_stdin, child_stdout, child_stderr)
        try:
            pid = self._spawn(start, ends)
        except BaseException:
            self._release()
            raise
        finally:
            for pipe in ends:
                os.close(pipe)
        super().__init__(pid, mark, start.is_sandboxed)
        self._watch = ExitWatch(pid)
        self.exited = self._watch.descriptor
        self._guard.watch(pid)
        for pipe in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(pipe, False)

    def _spawn(self, start: StartPlan, pipes: Sequence[int]) -> int:
        """Start a command in a session of its own and return its process number; pipes as for `spawn`."""
        raise NotImplementedError

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        code = self._watch.code
        return decode_exit_code(code) if self._is_sandboxed else code

    def close_stdin(self) -> None:
        """Close the input pipe."""
        if self.stdin >= 0:
            os.close(self.stdin)
        self.stdin = -1

    def stop_steps(self, is_patient: bool) -> Iterator[bool]:
        """Close the input, then send SIGTERM; the caller waits `GRACE_S` where this yields, then sends SIGKILL.

        Args:
            is_patient: Otherwise the input is closed only.

        Yields:
            Whether to wait until all processes have ended, or only the first.
        """
        self.close_stdin()
        if is_patient:
            yield False
            if self.send_signal(signal.SIGTERM):
                self.send_signal(signal.SIGCONT)  # a stopped process receives no other signal
                yield True

    def close(self) -> None:
        """Release pipes and guard; the processes must have been killed."""
        wait_readable(self.exited, GRACE_S)
        self._watch.close()
        with contextlib.suppress(ChildProcessError):  # the watch has waited for it
            os.waitpid(self.pid, os.WNOHANG)
        self._release()

    def _release(self) -> None:
        self.close_stdin()
        os.close(self.stdout)
        os.close(self.stderr)
        self._guard.end()


def wait_readable(file: int, limit_s: float) -> bool:
    """Wait until a file is readable; return whether it is."""
    waiting = select.poll()
    waiting.register(file, select.POLLIN)
    return bool(waiting.poll(limit_s * 1000))


def list_pids() -> list[int]:
    """Return the numbers of all processes; empty where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def list_descendants(pid: int) -> list[int]:
    """Return a process and its descendants, without zombies. One that is being forked may be missing (proc(5))."""
    running, unread = [], [pid]
    while unread:
        process = unread.pop()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if read_stat(process)[0] != "Z":
                running.append(process)
            for thread in os.listdir(f"/proc/{process}/task"):
                unread += map(int, _read_file(f"/proc/{process}/task/{thread}/children").split())
    return running


def read_stat(pid: int) -> list[str]:
    """Return a process's state, parent, group and so on (proc(5), after its name). Raises OSError if it has ended."""
    return _read_file(f"/proc/{pid}/stat").decode(errors="replace").rpartition(")")[2].split()


def _read_file(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(partial(os.read, file, 1 << 16), b""))
    finally:
        os.close(file)


class Guard:
    """A shell that outlives this program until it has stopped the processes with a mark, and their group.

    It costs 0.3 MB and 2 ms, and waits for the end of a pipe that only this program holds open. PR_SET_PDEATHSIG
    reaches only the first process and must be set in the child: a `preexec_fn` may deadlock in a program with threads
    (docs.python.org, subprocess), and forks a program that holds a model instead of using vfork.

    It is started before the server. If this program is killed while it starts the server, the end of the guard's pipe
    is open in the new process too, until that has become the server, whose mark the guard finds.

    Args:
        mark: The variable in the environment of the processes, as "NAME=value".
    """

    def __init__(self, mark: str) -> None:
        input_end, self._input = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        command = ["/bin/sh", "-c", GUARD_SCRIPT, "guard", mark]
        # the mark is no variable of its own, by which it would find itself
        self._pid = spawn(command, {"PATH": "/usr/bin:/bin"}, (input_end, null, null))
        os.close(input_end)
        os.close(null)

    def watch(self, group: int) -> None:
        """Tell the guard the group of the processes."""
        os.write(self._input, f"{group}\n".encode())

    def end(self) -> None:
        """End the guard itself."""
        # before its input is closed, at whose end it would stop the processes
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._input)


def spawn(command: list[str], environment: Mapping[str, str], pipes: Sequence[int], files: Sequence[int] = ()) -> int:
    """Start a command and return its process number.

    Args:
        command: Program and arguments.
        environment: The complete environment.
        pipes: Standard input, output and error.
        files: Other descriptors to inherit, under the same numbers.

    Raises:
        OSError: It cannot be started.
    """
    moves: list[tuple[int, ...]] = [(os.POSIX_SPAWN_DUP2, pipe, number) for number, pipe in enumerate(pipes)]
    moves += [(os.POSIX_SPAWN_CLOSE, file) for file in list_inheritable_fds()]
    moves += [(os.POSIX_SPAWN_DUP2, file, file) for file in files]  # no longer closed on exec
    return os.posix_spawn(
        command[0], command, environment, file_actions=moves, setsid=True, setsigdef=_DEFAULT_SIGNALS, setsigmask=()
    )


def list_inheritable_fds() -> list[int]:
    """Return the open files, apart from the first three, that this program inherited and a server must not."""
    try:
        fds = [int(name) for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd")]
    except FileNotFoundError:  # a chroot without /proc
        fds = list(range(1024))
    inheritable = []
    for file in filter(lambda number: number > 2, fds):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself, closed by now
            if os.get_inheritable(file):
                inheritable.append(file)
    return inheritable
