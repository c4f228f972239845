"""Machines with GPUs that don't exist: the files of /sys and /dev that tell of them, and softva to play them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.softva.log import Log


@dataclass(frozen=True)
class Gpu:
    """A GPU as the kernel shows it. `engines`: the names in the folder `engine` of the i915 driver."""

    node: str
    pci_address: str
    device_id: int
    vendor_id: int = 0x8086
    kernel_driver: str = "i915"
    engines: Sequence[str] = ("bcs0", "rcs0", "vcs0", "vecs0")

    @property
    def card(self) -> str:
        return f"card{int(self.node.removeprefix('renderD')) - 128}"


UHD_770 = Gpu("renderD128", "0000:00:02.0", 0x4680, engines=("bcs0", "rcs0", "vcs0", "vcs1", "vecs0"))
ARC_A380 = Gpu(
    "renderD129",
    "0000:03:00.0",
    0x56A5,
    engines=("bcs0", "ccs0", "rcs0", "vcs0", "vcs1", "vecs0", "vecs1"),
)


def plug(root: Path, gpus: Sequence[Gpu]) -> None:
    """Writes `root`/sys and `root`/dev as a machine with these GPUs has them. The nodes are plain files."""
    for gpu in gpus:
        device = root / "sys/devices/pci0000:00" / gpu.pci_address
        for name in (gpu.card, gpu.node):
            drm = device / "drm" / name
            drm.mkdir(parents=True)
            (drm / "device").symlink_to("../..")
            _link(root / "sys/class/drm" / name, drm)
        (device / "vendor").write_text(f"{gpu.vendor_id:#06x}\n")
        (device / "device").write_text(f"{gpu.device_id:#06x}\n")
        (device / "uevent").write_text(f"DRIVER={gpu.kernel_driver}\nPCI_SLOT_NAME={gpu.pci_address}\n")
        driver = root / "sys/bus/pci/drivers" / gpu.kernel_driver
        driver.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(Path("../../../bus/pci/drivers") / gpu.kernel_driver)
        if gpu.kernel_driver == "i915":
            for engine in gpu.engines:
                folder = device / "drm" / gpu.card / "engine" / engine
                folder.mkdir(parents=True)
                (folder / "name").write_text(f"{engine}\n")
        nodes = root / "dev/dri"
        nodes.mkdir(parents=True, exist_ok=True)
        (nodes / gpu.node).touch()
        _link(nodes / "by-path" / f"pci-{gpu.pci_address}-render", nodes / gpu.node)


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))


@dataclass
class Rig:
    """A machine whose GPUs softva plays. `root` is what discovery takes for `/`.

    `folder` has the log, the settings and a link to the machine that is there now: processes that run longer than a
    test know only this folder.
    """

    root: Path
    gpus: tuple[Gpu, ...]
    folder: Path
    log: Log = field(init=False)
    _set: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plug(self.root, self.gpus)
        self.log = Log(self.folder / "log")
        self.settings = self.folder / "settings"
        (self.folder / "machine").symlink_to(self.root)
        for gpu in self.gpus:
            self.set(gpu.node, SOFTVA_DEVICE_ID=f"{gpu.device_id:#06x}")

    def node(self, number: int = 0) -> str:
        """What VAAPI opens."""
        return str(self.root / "dev/dri" / self.gpus[number].node)

    def set(self, node: str, **settings: str) -> None:
        """Changes settings of one GPU, at once and also while it works; an empty value ends one."""
        self._set.setdefault(node, {}).update(settings)
        lines = [f"{name}={value}\n" for name, value in self._set[node].items()]
        (self.settings / f"{node}.new").write_text("".join(lines))
        (self.settings / f"{node}.new").rename(self.settings / node)

    def fail(self, node: str, rules: str) -> None:
        """Faults to come, such as `encode:5` or `crash:vpp:1`; none when empty."""
        self.set(node, SOFTVA_FAIL=rules)

    def close(self) -> None:
        (self.folder / "machine").unlink()
        for gpu in self.gpus:
            (self.settings / gpu.node).unlink()
