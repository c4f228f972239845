"""Language tags for manifests: BCP 47 wants the two-letter code where a language has one."""

from __future__ import annotations

_CODES = (
    "ar ara,bg bul,bn ben,ca cat,cs ces cze,da dan,de deu ger,el ell gre,en eng,es spa,et est,eu eus baq,fa fas per,"
    "fi fin,fr fra fre,ga gle,gl glg,he heb,hi hin,hr hrv,hu hun,hy hye arm,id ind,is isl ice,it ita,ja jpn,"
    "ka kat geo,ko kor,lt lit,lv lav,mk mkd mac,ms msa may,nb nob,nl nld dut,nn nno,no nor,pl pol,pt por,ro ron rum,"
    "ru rus,sk slk slo,sl slv,sq sqi alb,sr srp,sv swe,ta tam,te tel,th tha,tl tgl,tr tur,uk ukr,ur urd,vi vie,"
    "zh zho chi"
)
_SHORT = {long: codes.split()[0] for codes in _CODES.split(",") for long in codes.split()[1:]}
_LONG = {codes.split()[0]: codes.split()[1] for codes in _CODES.split(",")}
_UNKNOWN = ("und", "unk", "mis", "zxx", "")


def language_tag(language: str | None) -> str | None:
    """The tag of a language as files name it (ISO 639, with or without a region); None where that says nothing."""
    primary, _, rest = (language or "").strip().lower().replace("_", "-").partition("-")
    if primary in _UNKNOWN:
        return None
    short = _SHORT.get(primary, primary)
    return f"{short}-{rest}" if rest else short


def long_code(short: str) -> str:
    """The code of ISO 639-2 for one of two letters; itself where it has none."""
    return _LONG.get(short.lower(), short)
