"""Rate controls that GPUs are tried with, as options of their encoders."""

from __future__ import annotations

from pipelines.devices import HardwareApi
from pipelines.encoders import Options
from pipelines.hardware.encoders import CODEC_OF, encoder_options
from pipelines.rate_control import Cbr, Cqp, Crf, Icq, RateControl, Vbr
from pipelines.source import Colour
from pipelines.trials.clips import FRAMES

_QUALITY, _BITS = {"global_quality": "26"}, {"b": "1000000", "bufsize": "2000000"}
VAAPI_RATE_CONTROLS: dict[str, dict[str, str]] = {
    "cqp": {"rc_mode": "CQP", **_QUALITY},
    "icq": {"rc_mode": "ICQ", **_QUALITY},
    "cbr": {"rc_mode": "CBR", **_BITS, "maxrate": "1000000"},
    "vbr": {"rc_mode": "VBR", **_BITS, "maxrate": "1500000"},
    "qvbr": {"rc_mode": "QVBR", **_BITS, "maxrate": "1500000", **_QUALITY},
}
QSV_RATE_CONTROLS: dict[str, RateControl] = {
    "vbr": Vbr(bitrate=1_000_000),
    "cqp": Cqp(qp=26),
    "icq": Icq(quality=26),
    "cbr": Cbr(bitrate=1_000_000),
    "qvbr": Crf(crf=26, maxrate=1_500_000),
}
"""As jobs ask for them: what the VPL runtime makes of options depends on all of them. VBR is where look-ahead is worth
most; an encoder that can't there is not tried with the others."""


def trials(encoder: str, api: HardwareApi, *, look_ahead: bool) -> dict[str, Options]:
    """What is to be tried in turn, by the driver's names of rate controls."""
    if api == "vaapi":
        return VAAPI_RATE_CONTROLS
    return {
        mode: encoder_options(encoder, rate_control, "medium", FRAMES, Colour(), (mode,), (mode,) if look_ahead else ())
        for mode, rate_control in QSV_RATE_CONTROLS.items()
        if CODEC_OF[encoder] != "mjpeg" or mode == "cqp"
    }
