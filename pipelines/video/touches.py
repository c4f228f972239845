"""What denoise and sharpen are in FFmpeg's filters, by level and depth: those that every build has.

Of the wheel's filters (it has none under the GPL) measured on noise of σ 4 to 8 over moving pictures: `bilateral` took
the error down by 1 to 6 dB at 60 pictures of 640×360 a second, `nlmeans` by 8 to 10 dB at 4; `atadenoise` by 2 at most.
"""

from __future__ import annotations

Steps = list[tuple[str, dict[str, str]]]


def _bilateral(reach: str, difference: str) -> Steps:
    # all planes: the colours of noise are noise too
    return [("bilateral", {"sigmaS": reach, "sigmaR": difference, "planes": "7"})]


DENOISE: dict[tuple[str, bool], Steps] = {
    ("light", False): _bilateral("1", "0.05"),
    ("medium", False): _bilateral("2", "0.1"),
    ("strong", False): [("nlmeans", {"s": "6", "p": "5", "r": "9"})],
    ("light", True): _bilateral("1", "0.05"),
    ("medium", True): _bilateral("2", "0.1"),
    # nlmeans takes 8 bits only
    ("strong", True): _bilateral("3", "0.2"),
}
"""By level, and whether there are more than 8 bits."""


def _unsharp(amount: str) -> Steps:
    return [("unsharp", {"la": amount, "lx": "5", "ly": "5", "ca": "0"})]


_ADAPTIVE: Steps = [("cas", {"strength": "1", "planes": "1"})]

SHARPEN: dict[tuple[str, bool], Steps] = {
    ("light", False): _unsharp("0.5"),
    ("medium", False): _unsharp("1"),
    ("strong", False): _unsharp("1.8"),
    # unsharp does next to nothing in more than 8 bits
    ("light", True): [("cas", {"strength": "0.5", "planes": "1"})],
    ("medium", True): _ADAPTIVE,
    ("strong", True): [*_ADAPTIVE, *_ADAPTIVE],
}
"""The same."""
