"""GPUs as the kernel shows them, in folders that stand for the machine's /sys and /dev."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from pipelines.hardware.discovery import Found, discover, engines_told, find
from pipelines.hardware.intel import _GPUS, VENDOR, identify

UHD_770, ARC_A380, ARC_B580 = 0x4680, 0x56A5, 0xE20B


def plug(
    root: Path,
    node: int,
    address: str,
    device_id: int,
    *,
    vendor: int = VENDOR,
    driver: str = "i915",
    engines: tuple[str, ...] = ("rcs0", "bcs0", "vcs0", "vcs1", "vecs0"),
    with_node: bool = True,
) -> str:
    """Adds a GPU to the machine; gives the path of its render node."""
    device = root / "sys/devices/pci0000:00" / address
    card = device / "drm" / f"card{node - 128}"
    entry = device / "drm" / f"renderD{node}"
    for folder in (card, entry):
        folder.mkdir(parents=True)
        (folder / "device").symlink_to(device)
    for engine in engines:
        (card / "engine" / engine).mkdir(parents=True)
    (device / "vendor").write_text(f"0x{vendor:04x}\n")
    (device / "device").write_text(f"0x{device_id:04x}\n")
    drivers = root / "sys/bus/pci/drivers" / driver
    drivers.mkdir(parents=True, exist_ok=True)
    (device / "driver").symlink_to(drivers)
    listed = root / "sys/class/drm"
    listed.mkdir(parents=True, exist_ok=True)
    (listed / entry.name).symlink_to(entry)
    path = root / "dev/dri" / entry.name
    path.parent.mkdir(parents=True, exist_ok=True)
    if with_node:
        path.touch()
    return str(path)


def only(found: tuple[Found, ...]) -> Found:
    assert len(found) == 1
    return found[0]


def test_a_gpu_is_told_with_all_that_the_kernel_says(tmp_path: Path) -> None:
    node = plug(tmp_path, 128, "0000:00:02.0", UHD_770)
    assert only(discover(tmp_path)) == Found(
        id="pci-0000:00:02.0",
        node=node,
        name="Intel UHD Graphics 770 (Alder Lake)",
        pci_address="0000:00:02.0",
        generation="Alder Lake",
        kernel_driver="i915",
        engines={"copy": 1, "render": 1, "video": 2, "video-enhance": 1},
    )


def test_a_machine_without_gpus_has_none(tmp_path: Path) -> None:
    assert discover(tmp_path) == ()


def test_gpus_keep_their_identity_when_nodes_are_renumbered(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    plug(before, 128, "0000:00:02.0", UHD_770)
    plug(before, 129, "0000:03:00.0", ARC_A380)
    plug(after, 129, "0000:00:02.0", UHD_770)
    plug(after, 128, "0000:03:00.0", ARC_A380)
    first, second = discover(before), discover(after)
    assert [(gpu.id, gpu.name) for gpu in first] == [(gpu.id, gpu.name) for gpu in second]
    assert [Path(gpu.node).name for gpu in second] == ["renderD129", "renderD128"]


def test_xe_tells_its_engines_to_those_who_open_it() -> None:
    told = engines_told(
        "drm-driver:\txe\n"
        "drm-pdev:\t0000:03:00.0\n"
        "drm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\n"
        "drm-cycles-vcs:\t0\ndrm-total-cycles-vcs:\t7655183225\ndrm-engine-capacity-vcs:\t2\n"
    )
    assert told == {"render": 1, "video": 2}
    assert engines_told("drm-engine-video:\t0 ns\ndrm-engine-capacity-video:\t2\n") == {"video": 2}
    assert engines_told("pos:\t0\nflags:\t0100002\n") == {}


def test_where_nothing_tells_of_engines_none_are_claimed(tmp_path: Path) -> None:
    plug(tmp_path, 128, "0000:03:00.0", ARC_B580, driver="xe", engines=())
    gpu = only(discover(tmp_path))
    assert (gpu.kernel_driver, gpu.engines, gpu.generation) == ("xe", {}, "Battlemage")


def test_a_gpu_that_no_table_knows_is_tried_all_the_same(tmp_path: Path) -> None:
    plug(tmp_path, 128, "0000:00:02.0", 0xABCD)
    gpu = only(discover(tmp_path))
    assert (gpu.name, gpu.generation, gpu.problem) == ("Intel GPU 0xABCD", None, None)


def test_a_gpu_of_another_vendor_is_listed_and_not_used(tmp_path: Path) -> None:
    node = plug(tmp_path, 128, "0000:0b:00.0", 0x73BF, vendor=0x1002, driver="amdgpu")
    gpu = only(discover(tmp_path))
    assert gpu.name == "AMD GPU 0x73BF"
    assert gpu.problem is not None
    assert f"TRANSCODER_DEVICES={node}" in gpu.problem


def test_a_node_that_is_named_is_tried_whoever_made_it(tmp_path: Path) -> None:
    plug(tmp_path, 128, "0000:00:02.0", UHD_770)
    node = plug(tmp_path, 129, "0000:0b:00.0", 0x73BF, vendor=0x1002, driver="amdgpu")
    gpu = only(find((node,), tmp_path))
    assert (gpu.id, gpu.problem) == ("pci-0000:0b:00.0", None)


def test_a_link_to_a_node_names_it(tmp_path: Path) -> None:
    node = plug(tmp_path, 128, "0000:00:02.0", UHD_770)
    link = tmp_path / "dev/dri/by-path/pci-0000:00:02.0-render"
    link.parent.mkdir()
    link.symlink_to(node)
    assert find((str(link),), tmp_path) == discover(tmp_path)


def test_a_node_that_sysfs_does_not_list_is_tried(tmp_path: Path) -> None:
    node = tmp_path / "renderD200"
    node.touch()
    assert only(find((str(node),), tmp_path)).problem is None


def test_an_x_display_is_a_device(tmp_path: Path) -> None:
    assert only(find((":7",), tmp_path)) == Found(id="display-:7", node=":7", name="X display :7")


def test_the_same_device_named_twice_is_one(tmp_path: Path) -> None:
    assert len(find((":7", ":7"), tmp_path)) == 1


def test_none_finds_nothing(tmp_path: Path) -> None:
    plug(tmp_path, 128, "0000:00:02.0", UHD_770)
    assert find("none", tmp_path) == ()
    assert len(find("auto", tmp_path)) == 1


def test_a_node_that_is_not_in_the_container_is_said(tmp_path: Path) -> None:
    plug(tmp_path, 128, "0000:00:02.0", UHD_770, with_node=False)
    problem = only(discover(tmp_path)).problem
    assert problem is not None
    assert "--device /dev/dri" in problem


def test_a_node_that_may_not_be_opened_names_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = plug(tmp_path, 128, "0000:00:02.0", UHD_770)
    os.chown(node, -1, os.getgid())
    real = os.open

    def refused(path: str | Path, *arguments: int) -> int:
        if str(path) == node:
            raise PermissionError(13, "Permission denied", node)
        return real(path, *arguments)

    monkeypatch.setattr(os, "open", refused)
    problem = only(discover(tmp_path)).problem
    assert problem is not None
    assert f"--group-add {os.getgid()}" in problem


def test_a_device_without_hardware_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "sys/class/drm/renderD128").mkdir(parents=True)
    assert discover(tmp_path) == ()


def test_an_id_stands_in_the_table_once() -> None:
    ids = Counter(text for names in _GPUS.values() for ids in names.values() for text in ids.split())
    assert [text for text, times in ids.items() if times > 1] == []


@pytest.mark.parametrize(
    ("device_id", "name", "generation"),
    [
        (0x1912, "Intel HD Graphics 530 (Skylake)", "Skylake"),
        (0x46D1, "Intel Alder Lake graphics", "Alder Lake"),
        (0x56A0, "Intel Arc A770 (Alchemist)", "Alchemist"),
        (0x56C1, "Intel Flex 140 (Alchemist)", "Alchemist"),
        (0x7D55, "Intel Arc Graphics (Meteor Lake)", "Meteor Lake"),
        (0x64A0, "Intel Arc Graphics 130V/140V (Lunar Lake)", "Lunar Lake"),
        (0xE212, "Intel Arc Pro B50 (Battlemage)", "Battlemage"),
    ],
)
def test_gpus_have_the_names_that_they_are_sold_under(device_id: int, name: str, generation: str) -> None:
    gpu = identify(device_id)
    assert (gpu.name, gpu.generation) == (name, generation)
