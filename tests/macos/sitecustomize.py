"""Every interpreter with this folder on PYTHONPATH lacks what Python has on Linux and not on macOS (before 3.13)."""

import os
import signal
import socket

for module, names in {
    os: ("pidfd_open", "waitid", "sched_getaffinity", "sched_setaffinity", "memfd_create", "pipe2", "getxattr"),
    signal: ("sigtimedwait", "sigwaitinfo", "pidfd_send_signal"),
    socket: ("SO_PEERCRED", "AF_NETLINK", "SOCK_CLOEXEC"),
}.items():
    for name in names:
        vars(module).pop(name, None)
