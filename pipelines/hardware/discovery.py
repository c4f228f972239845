"""Which GPUs there are, from what the kernel tells; nothing is tried yet.

A GPU is known by its PCI address: render nodes are numbered anew at each start of the machine.
"""

from __future__ import annotations

import errno
import grp
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pipelines.hardware import intel
from pipelines.source import Facts

ENGINE_CLASSES = {"rcs": "render", "bcs": "copy", "vcs": "video", "vecs": "video-enhance", "ccs": "compute"}
"""The kernel's short names of engine classes, and the ones that i915's counters have."""

_ENGINE_LINE = re.compile(r"drm-(engine|cycles)-(?P<capacity>capacity-)?(?P<name>[a-z-]+):\s*(?P<count>\d+)")

VENDORS = {0x1002: "AMD", 0x10DE: "NVIDIA", 0x1AF4: "virtio", 0x15AD: "VMware", 0x1234: "QEMU"}

Wish = Literal["auto", "none"]


class Found(Facts):
    """A GPU, or an X display, that was found or named. `node` is what VAAPI opens."""

    id: str
    node: str
    name: str
    pci_address: str | None = None
    generation: str | None = None
    kernel_driver: str | None = None
    engines: dict[str, int] = {}
    """How many of each class; empty where the kernel does not say."""
    problem: str | None = None
    """Why it can't be used, and what to do about it."""


def find(wish: Wish | Sequence[str], root: Path = Path("/")) -> tuple[Found, ...]:
    """`auto`: all GPUs of the machine; `none`; or the render nodes and X displays (`:7`) that are named.

    A node that is named is tried whoever made it; it may be a link, such as one of /dev/dri/by-path.
    """
    if wish == "none":
        return ()
    if wish == "auto":
        return discover(root)
    nodes = {os.path.realpath(found.node): found for found in discover(root, vendors=None)}
    return tuple(
        _display(name) if name.startswith(":") else nodes.get(os.path.realpath(name)) or _unlisted(name)
        for name in dict.fromkeys(wish)
    )


def discover(root: Path = Path("/"), *, vendors: tuple[int, ...] | None = (intel.VENDOR,)) -> tuple[Found, ...]:
    """All GPUs with a render node, in the order of their PCI addresses.

    Those of other `vendors` (None: any will do) are among them, with that as their problem.
    """
    entries = (root / "sys/class/drm").glob("renderD*")
    found = [_gpu(entry, root, vendors) for entry in entries if (entry / "device").exists()]
    return tuple(sorted(found, key=lambda gpu: gpu.pci_address or gpu.id))


def _gpu(entry: Path, root: Path, vendors: tuple[int, ...] | None) -> Found:
    device = (entry / "device").resolve()
    node = str(root / "dev/dri" / entry.name)
    vendor, device_id = _hex(device / "vendor"), _hex(device / "device")
    address = device.name if vendor is not None else None
    driver = (device / "driver").resolve().name if (device / "driver").exists() else None
    problem, counted = _opened(node)
    name, generation = _unknown_name(vendor, device_id, driver), None
    if vendor == intel.VENDOR and device_id is not None:
        gpu = intel.identify(device_id)
        name, generation = gpu.name, gpu.generation
    elif vendors is not None and vendor not in vendors:
        problem = f"not an Intel GPU; to try it all the same, name its node: TRANSCODER_DEVICES={node}"
    return Found(
        id=f"pci-{address}" if address else f"node-{entry.name}",
        node=node,
        name=name,
        pci_address=address,
        generation=generation,
        kernel_driver=driver,
        engines=_engines(device) or counted,
        problem=problem,
    )


def _hex(path: Path) -> int | None:
    try:
        return int(path.read_text().strip(), 16)
    except (OSError, ValueError):
        return None


def _unknown_name(vendor: int | None, device_id: int | None, driver: str | None) -> str:
    if vendor is None or device_id is None:
        return f"GPU ({driver or 'unknown driver'})"
    return f"{VENDORS.get(vendor, f'vendor 0x{vendor:04X}')} GPU 0x{device_id:04X}"


def _engines(device: Path) -> dict[str, int]:
    """Engines by class, as i915 lists them: `card0/engine/vcs0`. xe lists none there."""
    names = (path.name.rstrip("0123456789") for path in device.glob("drm/card*/engine/*"))
    counts = Counter(ENGINE_CLASSES.get(name, name) for name in names)
    return dict(sorted(counts.items()))


def _display(name: str) -> Found:
    return Found(id=f"display-{name}", node=name, name=f"X display {name}")


def _unlisted(name: str) -> Found:
    """A node that the kernel's list does not have, such as one in a container without /sys."""
    problem, engines = _opened(name)
    return Found(id=f"node-{Path(name).name}", node=name, name=f"render node {name}", engines=engines, problem=problem)


def _opened(node: str) -> tuple[str | None, dict[str, int]]:
    """Why this process can't use the node, in words for the operator; and the engines that its driver tells of."""
    try:
        descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        hint = "pass it into the container (devices: [/dev/dri], or docker run --device /dev/dri)"
        return f"{node} is not there: {hint}", {}
    except PermissionError:
        return _permission_words(node), {}
    except OSError as error:
        return f"{node} can't be opened: {errno.errorcode.get(error.errno or 0, '?')} {error.strerror}", {}
    try:
        return None, engines_told(Path(f"/proc/self/fdinfo/{descriptor}").read_text())
    except OSError:
        return None, {}
    finally:
        os.close(descriptor)


def engines_told(fdinfo: str) -> dict[str, int]:
    """Engines by class, as a driver tells them for an open file (drm-usage-stats): a class has one, if no capacity."""
    counts: dict[str, int] = {}
    for line in fdinfo.splitlines():
        told = _ENGINE_LINE.match(line)
        if told:
            name = ENGINE_CLASSES.get(told["name"], told["name"])
            counts[name] = max(counts.get(name, 1), int(told["count"]) if told["capacity"] else 1)
    return dict(sorted(counts.items()))


def _permission_words(node: str) -> str:
    try:
        gid = os.stat(node).st_gid
    except OSError:
        return f"{node} may not be reached by this user"
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    return (
        f"{node} may not be opened by this user: add it to the group {group} (usermod -aG {group} USER, then log in "
        f"again); in a container: group_add: [{gid}], or docker run --group-add {gid}"
    )
