"""Which Intel GPU a PCI id is. Facts of the public PCI id lists: the kernel's, and names from pci.ids.

What a generation can do is not read from here: devices are measured. A GPU that is not in the table works as well as
one that is.
"""

from __future__ import annotations

from dataclasses import dataclass

VENDOR = 0x8086

_GPUS: dict[str, dict[str, str]] = {
    "Broadwell": {
        "": "1602 1606 160a 160b 160d 160e 161a 161b 161d 162d 162e 1632 1636 163a 163b 163d 163e",
        "HD Graphics 5300": "161e",
        "HD Graphics 5500": "1616",
        "HD Graphics 5600": "1612",
        "HD Graphics 6000": "1626",
        "Iris Graphics 6100": "162b",
        "Iris Pro Graphics 6200": "1622",
        "Iris Pro Graphics P6300": "162a",
    },
    "Cherryview": {
        "": "22b0 22b1 22b2 22b3",
    },
    "Skylake": {
        "": "190a 190e 1913 1915 1917 191a 192a",
        "HD Graphics 510": "1902 1906 190b",
        "HD Graphics 515": "191e",
        "HD Graphics 520": "1916 1921",
        "HD Graphics 530": "1912 191b",
        "HD Graphics 535": "1923",
        "HD Graphics P530": "191d",
        "Iris Graphics 540": "1926",
        "Iris Graphics 550": "1927",
        "Iris Graphics 555": "192b",
        "Iris Graphics P555": "192d",
        "Iris Pro Graphics 580": "1932 193b",
        "Iris Pro Graphics P580": "193a 193d",
    },
    "Apollo Lake": {
        "": "0a84 1a84 1a85",
        "HD Graphics 500": "5a85",
        "HD Graphics 505": "5a84",
    },
    "Gemini Lake": {
        "UHD Graphics 600": "3185",
        "UHD Graphics 605": "3184",
    },
    "Kaby Lake": {
        "": "5908 590a 590e 5913 5915 591a 593b",
        "HD Graphics 610": "5902 5906 590b",
        "HD Graphics 615": "591e",
        "HD Graphics 620": "5916 5921",
        "HD Graphics 630": "5912 591b",
        "HD Graphics 635": "5923",
        "HD Graphics P630": "591d",
        "Iris Plus Graphics 640": "5926",
        "Iris Plus Graphics 650": "5927",
        "UHD Graphics 615": "591c",
        "UHD Graphics 617": "87c0",
        "UHD Graphics 620": "5917",
    },
    "Coffee Lake": {
        "": "3e99 3ea2 3ea3 3ea4 3ea7",
        "Iris Plus Graphics 645": "3ea6",
        "Iris Plus Graphics 655": "3ea5 3ea8",
        "UHD Graphics 610": "3e90 3e93 3e9c 3ea1",
        "UHD Graphics 617": "87ca",
        "UHD Graphics 620": "3ea0 3ea9",
        "UHD Graphics 630": "3e91 3e92 3e98 3e9b",
        "UHD Graphics P630": "3e94 3e96 3e9a",
    },
    "Comet Lake": {
        "": "9b41 9ba2 9ba5 9baa 9bac 9bc2 9bc4 9bca 9bcc",
        "UHD Graphics 610": "9ba4 9ba8",
        "UHD Graphics 620": "9b21",
        "UHD Graphics 630": "9bc5 9bc8",
        "UHD Graphics P630": "9bc6 9be6 9bf6",
    },
    "Ice Lake": {
        "": "8a50 8a54 8a57 8a59 8a5b 8a5d 8a70 8a71",
        "Iris Plus Graphics G1": "8a56",
        "Iris Plus Graphics G4": "8a5a 8a5c",
        "Iris Plus Graphics G7": "8a51 8a52 8a53",
        "UHD Graphics G1": "8a58",
    },
    "Elkhart Lake": {
        "": "4541 4551 4557 4570",
        "UHD Graphics Gen11 16EU": "4555",
        "UHD Graphics Gen11 32EU": "4571",
    },
    "Jasper Lake": {
        "": "4e51 4e55 4e57 4e61 4e71",
    },
    "Tiger Lake": {
        "": "9a59 9a60 9a68 9a70 9ac0 9ac9 9ad9 9af8",
        "Iris Xe Graphics": "9a40 9a49",
        "UHD Graphics G4": "9a78",
    },
    "Rocket Lake": {
        "": "4c80 4c8c 4c9a",
        "UHD Graphics 730": "4c8b",
        "UHD Graphics 750": "4c8a",
        "UHD Graphics P750": "4c90",
    },
    "DG1": {
        "Iris Xe Graphics": "4908",
        "Iris Xe MAX 100": "4909",
        "Iris Xe MAX Graphics": "4905",
        "Iris Xe Pod": "4906",
        "Server GPU SG-18M": "4907",
    },
    "Alder Lake": {
        "": "4626 4628 462a 468a 468b 46a0 46a1 46a2 46a3 46b2 46b3 46c0 46c2 46c3 46d0 46d1 46d2 46d3 46d4",
        "Iris Xe Graphics": "46a6 46a8 46aa 46b0 46b1 46c1",
        "UHD Graphics 710": "4693",
        "UHD Graphics 730": "4682 4692",
        "UHD Graphics 770": "4680 4688 4690",
    },
    "Raptor Lake": {
        "": "a720 a721 a781 a782 a783 a788 a789 a78a a78b a7a8 a7a9 a7aa a7ab a7ac a7ad",
        "Iris Xe Graphics": "a7a0 a7a1",
        "UHD Graphics 770": "a780",
    },
    "Alchemist": {
        "Arc": "56a3 56a4",
        "Arc A310": "56a6",
        "Arc A310E": "56bb",
        "Arc A350E": "56bd",
        "Arc A350M": "5694",
        "Arc A370E": "56bc",
        "Arc A370M": "5693",
        "Arc A380": "56a5",
        "Arc A380E": "56ba",
        "Arc A530M": "5697",
        "Arc A550M": "5692",
        "Arc A570M": "5696",
        "Arc A580": "56a2",
        "Arc A580E": "56bf",
        "Arc A730M": "5691",
        "Arc A750": "56a1",
        "Arc A750E": "56be",
        "Arc A770": "56a0",
        "Arc A770M": "5690",
        "Arc Pro A30M": "56b0",
        "Arc Pro A40/A50": "56b1",
        "Arc Pro A60": "56b3",
        "Arc Pro A60M": "56b2",
        "Flex 140": "56c1",
        "Flex 170": "56c0",
        "Flex 170V": "56c2",
        "Iris Xe MAX A200M": "5695",
    },
    "Meteor Lake": {
        "": "7d40 7d45 7d60 7dd5",
        "Arc Graphics": "7d55",
    },
    "Arrow Lake": {
        "": "7d41 7d67 7dd1 b640",
        "Arc Pro 130T/140T": "7d51",
    },
    "Lunar Lake": {
        "": "6420 64b0",
        "Arc Graphics 130V/140V": "64a0",
    },
    "Battlemage": {
        "": "e202 e209 e20d e210 e216 e220 e221",
        "Arc B570": "e20c",
        "Arc B580": "e20b",
        "Arc Pro B50": "e212",
        "Arc Pro B60": "e211",
        "Arc Pro B65": "e222",
        "Arc Pro B70": "e223",
    },
    "Panther Lake": {
        "": "b08f b090 b0a0 b0b0",
        "Arc B370": "b081 b083",
        "Arc B390": "b080 b082",
        "Arc Pro B370": "b085 b087",
        "Arc Pro B390": "b084 b086",
    },
    "Wildcat Lake": {
        "": "fd80 fd81",
    },
}
"""By generation and the name that the GPU is sold under ("": none of its own), the PCI ids in hexadecimal."""


@dataclass(frozen=True)
class IntelGpu:
    name: str
    generation: str | None


_BY_ID: dict[int, IntelGpu] = {
    int(text, 16): IntelGpu(f"Intel {name} ({generation})" if name else f"Intel {generation} graphics", generation)
    for generation, names in _GPUS.items()
    for name, ids in names.items()
    for text in ids.split()
}


def identify(device_id: int) -> IntelGpu:
    """The GPU with this PCI device id; one without a generation when the table does not know it."""
    return _BY_ID.get(device_id) or IntelGpu(f"Intel GPU 0x{device_id:04X}", None)
