"""Names that clients give to files: kept for people to read, never used as paths."""

from __future__ import annotations

import re
from email.message import Message
from email.utils import collapse_rfc2231_value
from urllib.parse import quote

MAX_NAME_CHARACTERS = 255

# C0, DEL, C1, line and paragraph separators, bidirectional overrides, lone surrogates
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def display_name(raw: str, default: str = "upload") -> str:
    """`raw` with what can't be printed or stored replaced by U+FFFD, cut to 255 characters from its end.

    The end is kept because it has the extension; slashes stay, since the name is no path anywhere.
    """
    return _UNPRINTABLE.sub("\ufffd", raw)[-MAX_NAME_CHARACTERS:] or default


def attachment(name: str) -> str:
    """A Content-Disposition value that saves as `name` (RFC 6266: an ASCII form, then the exact one)."""
    ascii_form = re.sub(r"[^ !#$&+.0-9A-Z^_`a-z|~()\[\]{},;=@-]", "_", name)
    return f"attachment; filename=\"{ascii_form}\"; filename*=UTF-8''{quote(name, safe='')}"


def suggested_name(disposition: str) -> str | None:
    """The file name in a Content-Disposition header; `filename*` (RFC 8187) wins over `filename`."""
    message = Message()
    message["Content-Disposition"] = _UNPRINTABLE.sub("\ufffd", disposition)
    found = [value for key, value in message.get_params([], "content-disposition") if key.lower() == "filename"]
    # the extended form is a triple of character set, language and value
    extended = [value for value in found if isinstance(value, tuple)]
    return collapse_rfc2231_value((extended or found)[0]) if found else None
