"""System calls by number, for the architectures that the filter knows. Numbers are part of the kernel's interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FIRST_UNKNOWN = 463
"""Calls from this number on are newer than this list. The numbers from 424 on are the same on all architectures."""

_REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    # other programs and processes
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "kcmp": (312, 272),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "tkill": (200, 130),
    "migrate_pages": (256, 238),
    # the network, and talk between processes
    "socket": (41, 198),
    "msgget": (68, 186),
    "semget": (64, 190),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    # mounts, namespaces and the machine as a whole
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "personality": (135, 92),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    # the kernel itself
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "memfd_secret": (447, 447),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "fanotify_init": (300, 262),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    # files past Landlock: links, owners, modes, times, attributes, handles
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "link": (86, None),
    "linkat": (265, 37),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
}
"""Name: number on x86_64, on aarch64; None where the architecture lacks it."""


@dataclass(frozen=True)
class Architecture:
    """`audit` is the kernel's own name for it (AUDIT_ARCH_*)."""

    audit: int
    refused: tuple[int, ...]
    threads_only: tuple[int, ...]
    """`clone`: allowed for threads."""
    clone3: int
    socket: int
    own_pid_only: Mapping[int, tuple[int, ...]]
    """Calls whose first argument must be the process itself, or one of these."""
    first_unknown: int = FIRST_UNKNOWN


def _refused(place: int) -> tuple[int, ...]:
    return tuple(number for numbers in _REFUSED.values() if (number := numbers[place]) is not None)


X86_64 = Architecture(
    audit=0xC000003E,
    refused=_refused(0),
    threads_only=(56,),
    clone3=435,
    socket=41,
    # kill, tgkill, prlimit64 (0 is the caller)
    own_pid_only={62: (), 234: (), 302: (0,)},
)
AARCH64 = Architecture(
    audit=0xC00000B7,
    refused=_refused(1),
    threads_only=(220,),
    clone3=435,
    socket=198,
    own_pid_only={129: (), 131: (), 261: (0,)},
)
