"""Pairwise coverage: few cases in which every two values that may meet do meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

Case = dict[str, str]
Pair = tuple[tuple[str, str], tuple[str, str]]


def pairs_of(case: Mapping[str, str]) -> set[Pair]:
    return set(itertools.combinations(case.items(), 2))


def every_pair(axes: Mapping[str, Sequence[str]], allowed: Callable[[Case], bool]) -> set[Pair]:
    """All pairs of values of two axes that are part of some allowed case."""
    return {pair for case in product(axes, allowed) for pair in itertools.combinations(case.items(), 2)}


def product(axes: Mapping[str, Sequence[str]], allowed: Callable[[Case], bool]) -> list[Case]:
    cases = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    return [case for case in cases if allowed(case)]


def covering(axes: Mapping[str, Sequence[str]], allowed: Callable[[Case], bool]) -> list[Case]:
    """A small list of allowed cases with all pairs: each time the case that has most of those still missing."""
    bits: dict[Pair, int] = {}
    candidates = [
        (sum(1 << bits.setdefault(pair, len(bits)) for pair in itertools.combinations(case.items(), 2)), case)
        for case in product(axes, allowed)
    ]
    missing = (1 << len(bits)) - 1
    chosen = []
    while missing:
        pairs, case = max(candidates, key=lambda candidate: (candidate[0] & missing).bit_count())
        chosen.append(case)
        missing &= ~pairs
        candidates = [candidate for candidate in candidates if candidate[0] & missing]
    return chosen
