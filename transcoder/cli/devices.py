"""`transcoder devices`: which GPUs there are, what they can do, and what to do where they can't."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from transcoder.cli.options import JsonOption, load_settings

if TYPE_CHECKING:
    from pipelines.devices import Capability, Device
    from transcoder.settings import Settings


def devices(
    as_json: JsonOption = False,
    measure: Annotated[bool, typer.Option("--measure", help="Measure GPUs anew, also those that are known.")] = False,
) -> None:
    """Show the CPU and the GPUs of this machine, and what they encode and decode. The first time GPUs are measured."""
    import asyncio

    from transcoder.cli.screen import print_json

    found = asyncio.run(_measured(load_settings(), anew=measure))
    if as_json:
        print_json([device.model_dump(mode="json") for device in found])
        return
    for device in found:
        _show(device)


async def _measured(settings: Settings, *, anew: bool) -> tuple[Device, ...]:
    from transcoder.children.sandbox import SandboxPolicy
    from transcoder.children.supervise import Supervisor
    from transcoder.gpus.devices import Devices

    async with Supervisor(sandbox=SandboxPolicy(settings.sandbox, settings.child_memory_bytes)) as supervisor:
        known = Devices.found(settings, supervisor)
        await known.measure_all(anew=anew)
        return known.all


def _show(device: Device) -> None:
    from transcoder.cli.screen import out, table

    console = out()
    console.print(f"{device.name}  [{device.id}]", style="bold", markup=False)
    for line in _facts(device):
        console.print(f"  {line}", markup=False)
    if device.problem is not None:
        console.print(f"  can't be used: {device.problem}", style="red", markup=False)
    rows = _codecs(device.capabilities)
    if rows:
        table(("codec", "decodes", "encodes"), rows)
    console.print()


def _facts(device: Device) -> list[str]:
    engines = ", ".join(f"{count} × {name}" for name, count in device.engines.items())
    filters = ", ".join(device.filters)
    others = ", ".join(c.codec for c in device.capabilities if not c.pixel_formats)
    said = (
        ("node", device.path),
        ("kernel driver", device.kernel_driver),
        ("driver", device.driver),
        ("engines", engines),
        ("slots", str(device.slots) if device.problem is None else None),
        ("filters", filters),
        ("also writes", others),
        *(("note", note) for note in device.notes),
    )
    return [f"{name}: {value}" for name, value in said if value]


def _codecs(capabilities: tuple[Capability, ...]) -> list[tuple[str, str, str]]:
    """A row for each codec, as far as it is a picture's."""
    rows = []
    for codec in dict.fromkeys(c.codec for c in capabilities if c.pixel_formats):
        own = [c for c in capabilities if c.codec == codec]
        decodes = "\n".join(_words(c) for c in own if c.direction == "decode")
        encodes = "\n".join(_words(c) for c in own if c.direction == "encode")
        rows.append((codec, decodes, encodes))
    return rows


def _words(capability: Capability) -> str:
    """Such as `hevc_vaapi, 10 bit, up to 8192×8192: cqp, vbr`."""
    parts = [capability.encoder] if capability.encoder else []
    depths = sorted({10 if "10" in name else 8 for name in capability.pixel_formats})
    parts.append(" and ".join(map(str, depths)) + " bit")
    if capability.max_size is not None:
        parts.append(f"up to {capability.max_size[0]}×{capability.max_size[1]}")
    modes = ", ".join(capability.rate_controls)
    return ", ".join(parts) + (f": {modes}" if modes else "")
