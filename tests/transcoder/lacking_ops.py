"""A fork server on a kernel that lacks a layer of the sandbox: LACKING names it."""

from __future__ import annotations

import errno
import os

from transcoder.children import landlock, seccomp


def _refuse() -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


if os.environ["LACKING"] == "landlock":
    landlock.restrict = lambda grants: _refuse()
else:
    seccomp.install = _refuse

OPS = {"run": lambda payload, emit: payload}
