"""The two containers: safetensors (read, write) and GGUF (write). A tensor is a Stored: type name, logical shape, raw bytes."""
import json
import pathlib
import struct
from dataclasses import dataclass

import numpy as np

BITS = {"F32": 32, "BF16": 16, "F16": 16, "I8": 8, "U8": 8, "F8_E4M3": 8, "I32": 32, "I64": 64, "F64": 64, "F8_E5M2": 8}
NUMPY = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I8": np.int8, "U8": np.uint8, "F8_E4M3": np.uint8, "I32": np.int32, "F64": np.float64}


@dataclass
class Stored:
    type: str
    shape: tuple
    data: bytes

    @property
    def array(self):
        """The stored bits; bf16 and e4m3 as unsigned integers."""
        return np.frombuffer(self.data, NUMPY[self.type]).reshape(self.shape)


def bf16_bits(x):
    """Round to nearest even. Finite values only."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def stored(type_name, values):
    """float32 values as F32, F16 or BF16; integer arrays as they are."""
    values = np.asarray(values)
    if type_name == "BF16":
        raw = bf16_bits(values)
    elif type_name == "F16":
        raw = values.astype(np.float16)
    else:
        raw = values.astype(NUMPY[type_name], copy=False)
    return Stored(type_name, values.shape, np.ascontiguousarray(raw).tobytes())


def text(value):
    """A JSON text as a U8 tensor, the way markers and quantisation states are stored."""
    raw = json.dumps(value).encode()
    return Stored("U8", (len(raw),), raw)


def as_float(tensor):
    if tensor.type == "BF16":
        return (tensor.array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return tensor.array.astype(np.float32)


def read_safetensors(path):
    """(tensors, metadata)"""
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    data = raw[8 + length :]
    return {n: Stored(e["dtype"], tuple(e["shape"]), data[slice(*e["data_offsets"])]) for n, e in header.items()}, metadata


def write_safetensors(path, tensors, metadata=None):
    header, offset = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    order = sorted(tensors, key=lambda n: (-BITS[tensors[n].type], n))  # widest first, so that all stay aligned
    for name in order:
        tensor = tensors[name]
        assert len(tensor.data) * 8 == BITS[tensor.type] * int(np.prod(tensor.shape, dtype=np.int64)), name
        header[name] = {"dtype": tensor.type, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(tensor.data)]}
        offset += len(tensor.data)
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-(8 + len(raw)) % 64)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        for name in order:
            file.write(tensors[name].data)


# GGUF, version 3, little endian: magic, version, counts, key-values, tensor descriptions (extents fastest first), padding, data.
GGUF_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "BF16": 30}


def _gguf_string(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _gguf_value(value):
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _gguf_string(value)
    items = list(value)  # an array of strings or of u32
    if items and isinstance(items[0], str):
        return struct.pack("<IIQ", 9, 8, len(items)) + b"".join(_gguf_string(i) for i in items)
    return struct.pack("<IIQ", 9, 4, len(items)) + struct.pack(f"<{len(items)}I", *items)


def write_gguf(path, tensors, metadata, alignment=32):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += _gguf_string(key) + _gguf_value(value)
    offset = 0
    for name, tensor in tensors.items():
        head += _gguf_string(name) + struct.pack("<I", len(tensor.shape)) + b"".join(struct.pack("<Q", n) for n in reversed(tensor.shape))
        head += struct.pack("<IQ", GGUF_TYPES[tensor.type], offset)
        offset += len(tensor.data) + -len(tensor.data) % alignment
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % alignment))
        for tensor in tensors.values():
            file.write(tensor.data + b"\0" * (-len(tensor.data) % alignment))
