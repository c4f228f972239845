"""AES for the engine, which has no cipher of its own."""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7


def encrypt_cbc(key: bytes, iv: bytes, data: bytes) -> bytes:
    """AES-CBC with PKCS #7 padding."""
    padder = PKCS7(algorithms.AES.block_size).padder()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    return encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()
