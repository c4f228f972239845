"""Which demuxer reads a file that starts with which bytes. An allow-list: what is not here is not opened.

Demuxers that follow references (hls, concat, dash, image2, sdp …), render text or make signals are left out by design,
and so are headerless formats, which fit any file.
"""

from __future__ import annotations

from enum import StrEnum


class Demuxer(StrEnum):
    """FFmpeg's names of the demuxers that inputs may be read with."""

    AAC = "aac"
    AC3 = "ac3"
    AIFF = "aiff"
    AMR = "amr"
    APE = "ape"
    APNG = "apng"
    APV = "apv"
    ASF = "asf"
    AST = "ast"
    AU = "au"
    AV1_ANNEXB = "av1"
    AVI = "avi"
    BINK = "bink"
    BMP = "bmp_pipe"
    CAF = "caf"
    DDS = "dds_pipe"
    DIRAC = "dirac"
    DNXHD = "dnxhd"
    DPX = "dpx_pipe"
    DSF = "dsf"
    DTS = "dts"
    DTSHD = "dtshd"
    DV = "dv"
    EAC3 = "eac3"
    EXR = "exr_pipe"
    FILM = "film_cpk"
    FITS = "fits"
    FLAC = "flac"
    FLV = "flv"
    GIF = "gif"
    GXF = "gxf"
    H264 = "h264"
    HDR = "hdr_pipe"
    HEVC = "hevc"
    IAMF = "iamf"
    IFF = "iff"
    IRCAM = "ircam"
    IVF = "ivf"
    IVR = "ivr"
    J2K = "j2k_pipe"
    JPEG = "jpeg_pipe"
    JPEGXL = "jpegxl_pipe"
    LOAS = "loas"
    M4V = "m4v"
    MATROSKA = "matroska,webm"
    MLP = "mlp"
    MMF = "mmf"
    MOV = "mov,mp4,m4a,3gp,3g2,mj2"
    MP3 = "mp3"
    MPC = "mpc"
    MPC8 = "mpc8"
    MPEGPS = "mpeg"
    MPEGTS = "mpegts"
    MPEGVIDEO = "mpegvideo"
    MXF = "mxf"
    NIST = "nistsphere"
    NSV = "nsv"
    NUT = "nut"
    NUV = "nuv"
    OBU = "obu"
    OGG = "ogg"
    OMA = "oma"
    PAM = "pam_pipe"
    PBM = "pbm_pipe"
    PGM = "pgm_pipe"
    PNG = "png_pipe"
    PPM = "ppm_pipe"
    PSD = "psd_pipe"
    QCP = "qcp"
    QOI = "qoi_pipe"
    RM = "rm"
    ROQ = "roq"
    SHN = "shn"
    SMK = "smk"
    SOX = "sox"
    TAK = "tak"
    TIFF = "tiff_pipe"
    TRUEHD = "truehd"
    TTA = "tta"
    VC1 = "vc1"
    VC1TEST = "vc1test"
    VOC = "voc"
    VQF = "vqf"
    VVC = "vvc"
    W64 = "w64"
    WAV = "wav"
    WEBP = "webp_pipe"
    WEBP_ANIM = "webp_anim"
    WTV = "wtv"
    WV = "wv"
    XWMA = "xwma"
    Y4M = "yuv4mpegpipe"


Parts = tuple[tuple[int, bytes], ...]
"""(offset, bytes) pairs that must all be there."""


def _at(*parts: tuple[int, bytes]) -> Parts:
    return parts


def _riff(kind: bytes, *, outer: bytes = b"RIFF") -> Parts:
    return ((0, outer), (8, kind))


SIGNATURES: tuple[tuple[Parts, Demuxer], ...] = (
    (_at((0, b"\x1aE\xdf\xa3")), Demuxer.MATROSKA),
    (_riff(b"AVI "), Demuxer.AVI),
    (_riff(b"AVIX"), Demuxer.AVI),
    (_riff(b"AVI\x19"), Demuxer.AVI),
    (_riff(b"AMV "), Demuxer.AVI),
    (_at((0, b"ON2 "), (8, b"ON2f")), Demuxer.AVI),
    (_riff(b"WAVE"), Demuxer.WAV),
    (_riff(b"WAVE", outer=b"RIFX"), Demuxer.WAV),
    (_riff(b"WAVE", outer=b"RF64"), Demuxer.WAV),
    (_riff(b"WAVE", outer=b"BW64"), Demuxer.WAV),
    (_riff(b"WEBP"), Demuxer.WEBP),
    (_riff(b"CDXA"), Demuxer.MPEGPS),
    (_riff(b"XWMA"), Demuxer.XWMA),
    (_riff(b"QLCM"), Demuxer.QCP),
    (_at((0, b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00")), Demuxer.W64),
    (_riff(b"AIFF", outer=b"FORM"), Demuxer.AIFF),
    (_riff(b"AIFC", outer=b"FORM"), Demuxer.AIFF),
    (_riff(b"8SVX", outer=b"FORM"), Demuxer.IFF),
    (_riff(b"16SV", outer=b"FORM"), Demuxer.IFF),
    (_riff(b"MAUD", outer=b"FORM"), Demuxer.IFF),
    (_riff(b"ILBM", outer=b"FORM"), Demuxer.IFF),
    (_riff(b"PBM ", outer=b"FORM"), Demuxer.IFF),
    (_riff(b"ANIM", outer=b"FORM"), Demuxer.IFF),
    (_at((0, b"FRM8"), (12, b"DSD ")), Demuxer.IFF),
    (_at((0, b"0&\xb2u\x8ef\xcf\x11\xa6\xd9\x00\xaa\x00b\xcel")), Demuxer.ASF),
    (_at((0, b"FLV\x01")), Demuxer.FLV),
    (_at((0, b"OggS\x00")), Demuxer.OGG),
    (_at((0, b"fLaC")), Demuxer.FLAC),
    (_at((0, b"caff\x00\x01")), Demuxer.CAF),
    (_at((0, b".snd")), Demuxer.AU),
    (_at((0, b"#!AMR")), Demuxer.AMR),
    (_at((0, b"MAC ")), Demuxer.APE),
    (_at((0, b"wvpk")), Demuxer.WV),
    (_at((0, b"TTA1")), Demuxer.TTA),
    (_at((0, b"tBaK")), Demuxer.TAK),
    (_at((0, b"ajkg")), Demuxer.SHN),
    (_at((0, b"DSD "), (28, b"fmt ")), Demuxer.DSF),
    (_at((0, b"MP+")), Demuxer.MPC),
    (_at((0, b"MPCK")), Demuxer.MPC8),
    (_at((0, b"Creative Voice File\x1a")), Demuxer.VOC),
    (_at((0, b"EA3"), (4, b"\x00\x60\xff\xff")), Demuxer.OMA),
    (_at((0, b"TWIN"), (12, b"COMM")), Demuxer.VQF),
    (_at((0, b"MMMD"), (8, b"CNTI")), Demuxer.MMF),
    (_at((0, b".SoX")), Demuxer.SOX),
    (_at((0, b"XoS.")), Demuxer.SOX),
    (_at((0, b"NIST_1A\n   1024\n")), Demuxer.NIST),
    (_at((0, b"STRM"), (64, b"BLCK")), Demuxer.AST),
    (_at((0, b"\x64\xa3")), Demuxer.IRCAM),
    (_at((1, b"\xa3\x64\x00")), Demuxer.IRCAM),
    (_at((0, b"\xf8\x06iamf")), Demuxer.IAMF),
    (_at((0, b"DTSHDHDR")), Demuxer.DTSHD),
    (_at((0, b"\x7f\xfe\x80\x01")), Demuxer.DTS),
    (_at((0, b"\xfe\x7f\x01\x80")), Demuxer.DTS),
    (_at((0, b"\x1f\xff\xe8\x00")), Demuxer.DTS),
    (_at((0, b"\xff\x1f\x00\xe8")), Demuxer.DTS),
    (_at((4, b"\xf8\x72\x6f\xba")), Demuxer.TRUEHD),
    (_at((4, b"\xf8\x72\x6f\xbb")), Demuxer.MLP),
    (_at((0, b"\x00\x00\x00\x00\x01\xbc"), (14, b"\xe1\xe2")), Demuxer.GXF),
    (_at((0, b"nut/multimedia container\x00")), Demuxer.NUT),
    (_at((0, b"DKIF\x00\x00")), Demuxer.IVF),
    (_at((0, b".RMF\x00\x00")), Demuxer.RM),
    (_at((0, b".ra\xfd")), Demuxer.RM),
    (_at((0, b".R1M\x00\x01\x01")), Demuxer.IVR),
    (_at((0, b".REC\x00\x01\x01")), Demuxer.IVR),
    (_at((0, b"\xb7\xd8\x00\x20\x37\x49\xda\x11\xa6\x4e\x00\x07\xe9\x5e\xad\x8d")), Demuxer.WTV),
    (_at((0, b"NSVf")), Demuxer.NSV),
    (_at((0, b"NSVs")), Demuxer.NSV),
    (_at((0, b"NuppelVideo\x00")), Demuxer.NUV),
    (_at((0, b"MythTVVideo\x00")), Demuxer.NUV),
    (_at((0, b"FILM"), (16, b"FDSC")), Demuxer.FILM),
    (_at((0, b"\x84\x10\xff\xff\xff\xff")), Demuxer.ROQ),
    (_at((0, b"SMK2")), Demuxer.SMK),
    (_at((0, b"SMK4")), Demuxer.SMK),
    (_at((0, b"BIKi")), Demuxer.BINK),
    (_at((0, b"BIKb")), Demuxer.BINK),
    (_at((0, b"KB2g")), Demuxer.BINK),
    (_at((0, b"BBCD")), Demuxer.DIRAC),
    (_at((0, b"\x00\x00\x02\x80\x01")), Demuxer.DNXHD),
    (_at((4, b"aPv1")), Demuxer.APV),
    (_at((3, b"\xc5\x04\x00\x00\x00"), (20, b"\x0c\x00\x00\x00")), Demuxer.VC1TEST),
    (_at((0, b"YUV4MPEG2 ")), Demuxer.Y4M),
    (_at((0, b"\x1f\x07\x00\x3f")), Demuxer.DV),
    (_at((0, b"\x1f\x07\x00\xbf")), Demuxer.DV),
    (_at((0, b"GIF87a")), Demuxer.GIF),
    (_at((0, b"GIF89a")), Demuxer.GIF),
    (_at((0, b"\x89PNG\r\n\x1a\n")), Demuxer.PNG),
    (_at((0, b"\xff\xd8\xff")), Demuxer.JPEG),
    (_at((0, b"\xff\x4f\xff\x51")), Demuxer.J2K),
    (_at((0, b"\x00\x00\x00\x0cjP  \r\n\x87\n"), (20, b"jp2 ")), Demuxer.J2K),
    (_at((0, b"\x00\x00\x00\x0cjP  \r\n\x87\n"), (20, b"jpx ")), Demuxer.J2K),
    (_at((0, b"\x00\x00\x00\x0cjP  \r\n\x87\n")), Demuxer.MOV),
    (_at((0, b"\xff\x0a")), Demuxer.JPEGXL),
    (_at((0, b"\x00\x00\x00\x0cJXL \r\n\x87\n")), Demuxer.JPEGXL),
    (_at((0, b"II*\x00")), Demuxer.TIFF),
    (_at((0, b"MM\x00*")), Demuxer.TIFF),
    (_at((0, b"v/1\x01")), Demuxer.EXR),
    (_at((0, b"SDPX")), Demuxer.DPX),
    (_at((0, b"XPDS")), Demuxer.DPX),
    (_at((0, b"8BPS\x00\x01")), Demuxer.PSD),
    (_at((0, b"qoif")), Demuxer.QOI),
    (_at((0, b"DDS \x7c\x00\x00\x00")), Demuxer.DDS),
    (_at((0, b"#?RADIANCE\n")), Demuxer.HDR),
    (_at((0, b"#?RGBE\n")), Demuxer.HDR),
    (_at((0, b"SIMPLE  =                    T")), Demuxer.FITS),
    *(
        (_at((0, b"BM"), (6, bytes(4)), (14, size.to_bytes(4, "little"))), Demuxer.BMP)
        for size in (12, 40, 52, 56, 108, 124)
    ),
    *(
        (_at((0, kind + space)), demuxer)
        for kind, demuxer in (
            (b"P1", Demuxer.PBM), (b"P4", Demuxer.PBM), (b"P2", Demuxer.PGM), (b"P5", Demuxer.PGM),
            (b"P3", Demuxer.PPM), (b"P6", Demuxer.PPM), (b"P7", Demuxer.PAM),
        )
        for space in (b"\n", b"\r\n")
    ),
)  # fmt: skip
"""Tried in order; the first whose parts are all there is taken."""

MOV_BOXES = frozenset(
    {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"styp", b"sidx", b"moof", b"udta", b"uuid"}
)
"""Names of the boxes that an MP4 or QuickTime file may start with."""

TEXT_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"#extm3u", "a playlist (M3U, HLS)"),
    (b"ffconcat", "an ffconcat script"),
    (b"<!doctype html", "a web page (HTML)"),
    (b"<html", "a web page (HTML)"),
    (b"<mpd", "a DASH manifest"),
    (b"<smoothstreamingmedia", "a Smooth Streaming manifest"),
    (b"<smil", "a SMIL playlist"),
    (b"<asx", "an ASX playlist"),
    (b"<svg", "an SVG drawing"),
    (b"<tt", "subtitles (TTML)"),
    (b"v=0", "a session description (SDP)"),
    (b"[playlist]", "a playlist (PLS)"),
    (b"[reference]", "a reference playlist"),
    (b"[script info]", "subtitles (ASS)"),
    (b"webvtt", "subtitles (WebVTT)"),
    (b"rtsptext", "a QuickTime text reference"),
    (b";ffmetadata", "an FFmpeg metadata file"),
    (b"{", "JSON or other text"),
    (b"<?xml", "an XML document"),
)
"""What a text that starts so (spaces skipped, lower case) is called in messages."""

BINARY_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3\x00", "a database"),
)
"""What other files are called in messages."""
