"""A child's own network: none at all, or nothing but the way from itself to itself.

What FFmpeg insists on connecting to by itself (RTSP, RTMP) is met there by the child's own threads, which pass the
bytes on to a descriptor that the service handed over. Where the child has a network namespace of its own, nobody else
is on its loopback; elsewhere Landlock leaves it the one port.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x41

_libc = ctypes.CDLL(None, use_errno=True)
_listener: socket.socket | None = None


def leave_network() -> bool:
    """Moves this process, and those that it will start, to a network without interfaces; False if it may not."""
    return bool(_libc.unshare(_CLONE_NEWNET) == 0)


def listen(*, private: bool) -> int:
    """Opens the port, before sockets are refused; gives its number.

    `private`: in a network namespace that no other process is in. OSError (EPERM) where the loopback of one can't be
    switched on: that takes CAP_NET_ADMIN.
    """
    global _listener
    if private:
        if not leave_network():
            raise OSError(ctypes.get_errno(), "no network namespace of its own for the loopback")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP_RUNNING))
    _listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    _listener.bind(("127.0.0.1", 0))
    _listener.listen(8)
    port: int = _listener.getsockname()[1]
    return port


def listener() -> socket.socket | None:
    """What `listen` opened; None where the child is not confined."""
    return _listener
