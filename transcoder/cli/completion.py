"""What a shell completes besides commands and options. `transcoder --install-completion` sets the shell up."""

from __future__ import annotations


def presets(incomplete: str) -> list[tuple[str, str]]:
    """Names of presets that begin so, with their titles."""
    from pipelines.presets import BadPreset, load_presets
    from transcoder.cli.failures import CommandError
    from transcoder.cli.options import load_settings

    try:
        found = load_presets(load_settings().presets_dir)
    except (BadPreset, CommandError):
        # a command that is run says what is wrong; completing is not the place
        found = load_presets()
    return [(preset.name, preset.title) for preset in found.values() if preset.name.startswith(incomplete)]
