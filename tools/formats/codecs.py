"""Number formats: encode (any good code will do) and decode (the published rule, in float32, one rounding per operation)."""
import numpy as np

F = np.float32

# ---- e4m3fn: sign, 4 exponent bits (bias 7), 3 fraction bits, no infinity, 0x7f and 0xff are NaN ----
_CODES = np.arange(127)
E4M3_VALUES = np.where(_CODES >> 3 == 0, (_CODES & 7) * 2.0**-9, (8 + (_CODES & 7)) * 2.0 ** ((_CODES >> 3) - 10.0)).astype(F)


def e4m3_encode(x):
    """Nearest, ties to the even code, saturating at 448."""
    magnitude = np.minimum(np.abs(x), F(448)).astype(F)
    above = np.clip(np.searchsorted(E4M3_VALUES, magnitude), 1, 126)
    low, high = E4M3_VALUES[above - 1].astype(np.float64), E4M3_VALUES[above].astype(np.float64)
    middle = (low + high) / 2
    up = (magnitude > middle) | ((magnitude == middle) & (above % 2 == 0))
    return (np.where(up, above, above - 1) | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)


def e4m3_decode(codes, scale):
    """w = value(code) * scale;  scale is scalar, [1], [out] or [out, 1]."""
    values = E4M3_VALUES[np.minimum(codes & 0x7F, 126)]
    return np.where(codes & 0x80, -values, values).astype(F) * _per_row(scale)


def _per_row(scale):
    scale = np.asarray(scale, F)
    return scale.reshape(()) if scale.size == 1 else scale.reshape(-1, 1)


# ---- NF4: blocks of 64 elements of the flattened matrix; w = map[code] * absmax; the high nibble is the first element ----
NF4_MAP = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], F)


def nf4_encode(w, block=64):
    """(packed u8 [numel / 2, 1], absmax f32 [numel / block])"""
    flat = np.zeros(-(-w.size // block) * block, F)
    flat[: w.size] = w.ravel()
    absmax = np.abs(flat.reshape(-1, block)).max(axis=1)
    normal = flat.reshape(-1, block) / np.where(absmax == 0, F(1), absmax)[:, None]
    codes = np.abs(normal[:, :, None] - NF4_MAP).argmin(axis=2).astype(np.uint8).ravel()[: w.size]
    return (codes[0::2] << 4 | codes[1::2]).reshape(-1, 1), absmax


def nf4_decode(packed, absmax, shape, quant_map=NF4_MAP, block=64):
    codes = np.stack([packed.ravel() >> 4, packed.ravel() & 15], axis=1).ravel()
    return (quant_map[codes] * np.repeat(absmax, block)[: codes.size]).reshape(shape)


def nested_encode(absmax, block=256):
    """absmax itself in 8 bits: (codes u8, map f32 [256], per-block absmax f32, offset). The map is any ascending table; readers must use the stored one."""
    levels = np.linspace(-1, 1, 256)
    nested_map = (np.sign(levels) * np.abs(levels) ** 1.5).astype(F)
    offset = F(absmax.mean())
    padded = np.zeros(-(-absmax.size // block) * block, F)
    padded[: absmax.size] = absmax - offset
    nested = np.abs(padded.reshape(-1, block)).max(axis=1)
    normal = padded.reshape(-1, block) / np.where(nested == 0, F(1), nested)[:, None]
    codes = np.abs(normal[:, :, None] - nested_map).argmin(axis=2).astype(np.uint8).ravel()[: absmax.size]
    return codes, nested_map, nested, offset


def nested_decode(codes, nested_map, nested, offset, block=256):
    return nested_map[codes] * np.repeat(nested, block)[: codes.size] + F(offset)


# ---- int8: w = scale * code; ConvRot multiplies the weight by a rotation first, smoothing by a diagonal ----
def int8_encode_rows(w):
    """(codes s8, scale f32 [out]).  scale = max|w| / 127, code = clamp(rint(w / scale))"""
    scale = (np.abs(w).max(axis=1) / F(127)).astype(F)
    codes = np.rint(w / np.where(scale == 0, F(1), scale)[:, None])
    return np.clip(codes, -127, 127).astype(np.int8), scale


def int8_encode_tensor(w):
    scale = F(np.abs(w).max() / F(127))
    return np.clip(np.rint(w / scale), -127, 127).astype(np.int8), scale


def int8_decode(codes, scale):
    return codes.astype(F) * _per_row(scale)


def rotate(w, group):
    """w R along the last axis, in radix-4 steps, smallest stride first, each 1/2 (((a +- b) +- c) +- d) in float32."""
    x = np.array(w, F)
    stride = 1
    while stride < group:
        v = x.reshape(*x.shape[:-1], -1, 4, stride)
        a, b, c, d = (v[..., i, :].copy() for i in range(4))
        h = F(0.5)
        v[..., 0, :] = h * (((a + b) + c) - d)
        v[..., 1, :] = h * (((a + b) - c) + d)
        v[..., 2, :] = h * (((a - b) + c) + d)
        v[..., 3, :] = h * (((b - a) + c) + d)
        stride *= 4
    return x


def rotation_matrix(group):
    h4 = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]) / 2
    matrix = np.ones((1, 1))
    while matrix.shape[0] < group:
        matrix = np.kron(h4, matrix)
    return matrix


def largest_group(columns, limit):
    """The largest 4^n <= limit that divides `columns`; 0 if not even 4 does."""
    group = limit
    while group >= 4 and columns % group:
        group //= 4
    return group if group >= 4 else 0


# ---- GGUF blocks, along each row ----
def q8_0_encode(w):
    """34 bytes for 32 weights: fp16 d, 32 int8."""
    blocks = w.reshape(-1, 32)
    d = (np.abs(blocks).max(axis=1) / 127).astype(np.float16)
    inverse = np.where(d == 0, 0, 1 / np.where(d == 0, F(1), d.astype(F)))
    q = np.clip(np.rint(blocks * inverse[:, None]), -127, 127).astype(np.int8)
    return np.concatenate([d[:, None].view(np.uint8), q.view(np.uint8)], axis=1).tobytes()


def q8_0_decode(raw, shape):
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 34)
    d = blocks[:, :2].copy().view(np.float16).astype(F)
    return (d * blocks[:, 2:].copy().view(np.int8).astype(F)).reshape(shape)


def q4_0_encode(w):
    """18 bytes for 32 weights: fp16 d, 16 bytes; low nibbles are elements 0..15, high nibbles 16..31."""
    blocks = w.reshape(-1, 32)
    extreme = blocks[np.arange(len(blocks)), np.abs(blocks).argmax(axis=1)]
    d = (extreme / -8).astype(np.float16)
    inverse = np.where(d == 0, 0, 1 / np.where(d == 0, F(1), d.astype(F)))
    q = np.clip(np.floor(blocks * inverse[:, None] + F(8.5)), 0, 15).astype(np.uint8)
    return np.concatenate([d[:, None].view(np.uint8), q[:, :16] | q[:, 16:] << 4], axis=1).tobytes()


def q4_0_decode(raw, shape):
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 18)
    d = blocks[:, :2].copy().view(np.float16).astype(F)
    q = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1).astype(F) - F(8)
    return (d * q).reshape(shape)


def q4_k_encode(w):
    """144 bytes for 256 weights: fp16 d, fp16 dmin, 12 bytes of 6-bit scales and mins of 8 sub-blocks, 128 bytes of nibbles."""
    sub = w.reshape(-1, 8, 32)
    low = np.minimum(sub.min(axis=2), 0)
    scale, minimum = (sub.max(axis=2) - low) / 15, -low
    d = (scale.max(axis=1) / 63).astype(np.float16)
    dmin = (minimum.max(axis=1) / 63).astype(np.float16)
    over = lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, F(1), b))  # noqa: E731
    sc = np.clip(np.rint(over(scale, d.astype(F)[:, None])), 0, 63).astype(np.uint8)
    m = np.clip(np.rint(over(minimum, dmin.astype(F)[:, None])), 0, 63).astype(np.uint8)
    step = d.astype(F)[:, None] * sc
    shift = dmin.astype(F)[:, None] * m
    q = np.clip(np.rint(over(sub + shift[:, :, None], step[:, :, None])), 0, 15).astype(np.uint8)
    packed = np.empty((len(sub), 12), np.uint8)
    packed[:, 0:4] = sc[:, :4] | (sc[:, 4:] >> 4) << 6
    packed[:, 4:8] = m[:, :4] | (m[:, 4:] >> 4) << 6
    packed[:, 8:12] = sc[:, 4:] & 15 | (m[:, 4:] & 15) << 4
    nibbles = (q[:, 0::2] | q[:, 1::2] << 4).reshape(len(sub), 128)
    return np.concatenate([d[:, None].view(np.uint8), dmin[:, None].view(np.uint8), packed, nibbles], axis=1).tobytes()


def q4_k_decode(raw, shape):
    """w = (d * sc_j) * q - (dmin * m_j)"""
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 144)
    d = blocks[:, 0:2].copy().view(np.float16).astype(F)
    dmin = blocks[:, 2:4].copy().view(np.float16).astype(F)
    p = blocks[:, 4:16]
    sc = np.concatenate([p[:, :4] & 63, p[:, 8:] & 15 | p[:, :4] >> 6 << 4], axis=1).astype(F)
    m = np.concatenate([p[:, 4:8] & 63, p[:, 8:] >> 4 | p[:, 4:8] >> 6 << 4], axis=1).astype(F)
    chunks = blocks[:, 16:].reshape(-1, 4, 32)
    q = np.stack([chunks & 15, chunks >> 4], axis=2).reshape(-1, 8, 32).astype(F)
    return ((d * sc)[:, :, None] * q - (dmin * m)[:, :, None]).reshape(shape)


GGUF_BLOCK = {"Q8_0": 32, "Q4_0": 32, "Q4_K": 256}
GGUF_ENCODE = {"Q8_0": q8_0_encode, "Q4_0": q4_0_encode, "Q4_K": q4_k_encode}
GGUF_DECODE = {"Q8_0": q8_0_decode, "Q4_0": q4_0_decode, "Q4_K": q4_k_decode}
