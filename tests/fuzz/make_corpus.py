#!/usr/bin/env python3
"""Writes the seeds in tests/fuzz/corpus: one small file for each way through a reader. Deterministic; run it after changing a format."""
import json
import pathlib
import struct
import zlib

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def write(target, seeds):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, seed in seeds.items():
        (folder / name).write_bytes(seed if isinstance(seed, bytes) else seed.encode())


def safetensors(header, data=b""):
    text = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    return struct.pack("<Q", len(text.encode())) + text.encode() + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, before=b"", after=b"", interlace=0):
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", zlib.compress(rows)) + after + chunk(b"IEND", b"")


def gguf(keys=(), tensors=(), data=b"", version=3, alignment=32):
    """keys: (name, type, bytes); tensors: (name, extents fastest first, type, offset)"""
    string = lambda t: struct.pack("<Q", len(t.encode())) + t.encode()  # noqa: E731
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    head += b"".join(string(n) + struct.pack("<I", t) + v for n, t, v in keys)
    head += b"".join(string(n) + struct.pack(f"<I{len(e)}QIQ", len(e), *e, t, o) for n, e, t, o in tensors)
    return head + bytes(-len(head) % alignment) + data


def alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [characters[byte] for byte in range(256)]


def tokenizer(merges=(("a", "b"), ("a", "ab"), ("\u0120", "1")), strings=False, **changes):
    vocabulary = {character: i for i, character in enumerate(alphabet())}
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    root = {
        "added_tokens": [{"id": 300, "content": "<|im_end|>", "single_word": False, "lstrip": False, "rstrip": True, "normalized": False, "special": True}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "'s|\\p{L}+|\\p{N}| ?[^\\s\\p{L}]+|\\s+(?!\\S)|\\s"}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]},
        "model": {"type": "BPE", "merges": [" ".join(m) if strings else list(m) for m in merges], "vocab": vocabulary},
    }
    root.update(changes)
    return json.dumps(root, ensure_ascii=False, separators=(",", ":"))


def main():
    write("safetensors", {
        "nothing": safetensors({}),
        "two": safetensors({"__metadata__": {"format": "pt"}, "a": tensor("F32", [2], 0, 8), "b": tensor("BF16", [1, 3], 8, 14)}, bytes(14)),
        "scalar_and_empty": safetensors({"e": tensor("I8", [0, 3], 0, 0), "s": tensor("I64", [], 0, 8)}, bytes(8)),
        "unknown_dtype": safetensors({"q": tensor("Q4", [7], 0, 3)}, bytes(3)),
        "four_bits": safetensors({"q": tensor("F4", [4], 0, 2)}, bytes(2)),
        "six_axes": safetensors({"t": tensor("U8", [1, 1, 1, 1, 1, 1], 0, 1)}, b"x"),
        "padded": safetensors('{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}   ', b"x"),
        "overflow": safetensors({"t": tensor("F32", [4294967296, 4294967296], 0, 0)}),
        "zip": b"PK\x03\x04" + bytes(12),
        "html": "<!DOCTYPE html><html></html>",
    })
    text = struct.pack("<Q", 2) + b"sd"
    write("gguf", {
        "nothing": gguf(),
        "two": gguf([("general.architecture", 8, text)], [("a.weight", [3, 2], 0, 0), ("b.weight", [64, 1], 8, 32)], bytes(100)),
        "k_quant": gguf([], [("w", [256], 12, 0)], bytes(144)),
        "values": gguf([("u", 0, b"\1"), ("b", 7, b"\1"), ("f", 6, bytes(4)), ("d", 12, bytes(8)), ("n", 9, struct.pack("<IQ", 5, 2) + bytes(8)),
                        ("t", 9, struct.pack("<IQ", 8, 2) + text + text), ("a", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 0, 1) + b"x")]),
        "aligned_8": gguf([("general.alignment", 4, struct.pack("<I", 8))], [("a", [1], 0, 0)], bytes(4), alignment=8),
        "version_1": gguf(version=1),
        "type_39": gguf([], [("w", [32], 39, 0)], bytes(17)),
        "type_99": gguf([], [("w", [32], 99, 0)], bytes(17)),
        "overlap": gguf([], [("a", [16], 0, 0), ("b", [16], 0, 32)], bytes(96)),
    })
    write("dialect", {
        "convrot": '{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":64}',
        "fast": '{"convrot":true,"convrot_groupsize":16,"per_row":true}',
        "params": '{"format":"int8_tensorwise","params":{"convrot":true,"convrot_groupsize":4}}',
        "nf4": '{"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[8,64]}',
        "nf4_nested": '{"quant_type":"nf4","blocksize":64,"shape":[8,64],"nested_blocksize":256,"nested_dtype":"float32","nested_offset":0.25}',
        "header": '{"format_version":"1.0","layers":{"a":{"format":"int8_tensorwise"},"c":{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":16}}}',
        "blockwise": '{"format":"int8_blockwise","group_size":128}',
        "fp8": '{"format":"float8_e4m3fn","full_precision_matrix_mult":true}',
        "one_nested_block": '{"quant_type":"nf4","blocksize":4096,"shape":[8,64],"nested_blocksize":1,"nested_offset":1e300}',
    })
    write("json", {
        "all_kinds": '{"a":[1,-2,3.5e-7,true,false,null,"\\u00e9\\n\u4e16"],"b":{"c":{}},"d":[]}',
        "numbers": "[0,-0,18446744073709551615,-9223372036854775808,1e308,1E+2]",
        "scalar": '"x"',
        "deep": "[" * 63 + "]" * 63,
        "duplicate": '{"a":1,"a":2}',
        "escapes": '"\\"\\\\\\/\\b\\f\\n\\r\\t\\ud83d\\ude00"',
    })
    text = chunk(b"tEXt", b"Software\0octavo") + chunk(b"iTXt", b"prompt\0\0\0\0\0caf\xc3\xa9") + chunk(b"zTXt", b"z\0\0" + zlib.compress(b"caf\xe9"))
    write("png", {
        "rgb": png(2, 2, 8, 2, b"\0" + bytes(range(6)) + b"\1" + bytes(6), before=text),
        "grey_1_bit": png(9, 1, 1, 0, b"\0\xaa\x80"),
        "grey_alpha": png(1, 1, 8, 4, b"\0\x80\x7f", after=text),
        "rgba": png(1, 2, 8, 6, b"\0\1\2\3\4\2\5\6\7\x08"),
        "palette": png(4, 1, 2, 3, b"\0\x1b", before=chunk(b"PLTE", bytes(range(12))) + chunk(b"tRNS", b"\xff\x00")),
        "interlaced": png(2, 2, 8, 0, b"\0\1" + b"\0\2" + b"\0\3\4", interlace=1),
        "sixteen_bits": png(1, 1, 16, 0, b"\0\1\2"),
        "large_promise": png(16384, 16384, 8, 2, b"\0"),
        "large_text_promise": png(1, 1, 8, 0, b"\0\1", before=struct.pack(">I", 0x6f7b9100) + b"tEXtSoftware\0x"),  # libFuzzer found it: 1.9 GB allocated
    })
    write("caption", {
        "photo": '{"high_level_description":"a cat","style_description":{"aesthetics":"a","lighting":"l","photo":"p","medium":"m","color_palette":["#FF00AA"]},'
                 '"compositional_deconstruction":{"background":"b","elements":[{"type":"obj","bbox":[0,1,999,1000],"desc":"d","color_palette":["#123456"]},'
                 '{"type":"text","bbox":[1,2,3,4],"text":"HI","desc":"d"}]}}',
        "drawing": '{"style_description":{"aesthetics":"a","lighting":"l","medium":"m","art_style":"s"},"compositional_deconstruction":{"background":"b","elements":[]}}',
        "escaped": '{ "high_level_description" : "caf\\u00e9 \\\\u00e9" , "compositional_deconstruction":{"elements":[{"type":"obj"}],"background":"b"}}',
        "wrong_everywhere": '{"x":1,"style_description":[],"compositional_deconstruction":{"background":"b","elements":[3,{"type":"obj","text":"t","bbox":[5,5,1,-1.5],"color_palette":["red"]}]}}',
        "plain": "a cat",
    })
    write("tokenizer", {
        "chat": "<|im_start|>user\nA photo of a cat, it's 12 %<|im_end|>\n<|im_start|>assistant\n",
        "scripts": "\u4f60\u597d \u05e9\u05b8\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 e\u0301 \u1112\u1161\u11ab \u212b",
        "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f\U0001f1e9\U0001f1ea",
        "white_space": " \t\r\n \n\n  \u3000\u00a0\u2028 x  ",
        "marks": "a\u0301\u0323\u0327\u0345\u0301\u0323",
        "contractions": "we'LL don't 's ''s it'\u017f",
        "half_special": "<|im_<|im_end|><|end",
        "invalid": b"abc\xed\xa0\x80\xff\x00",
    })
    write("tokenizer_file", {
        "plain": tokenizer(),
        "strings_and_no_merges_in_use": tokenizer(strings=True, normalizer=None),
        "flags": tokenizer(added_tokens=[{"id": 301, "content": "it", "single_word": True}, {"id": 302, "content": "\u212b", "normalized": True, "lstrip": True}]),
        "default_split": tokenizer(pre_tokenizer=None, post_processor={"type": "ByteLevel"}),
        "unsupported": tokenizer(normalizer={"type": "NFKC"}),
    })


if __name__ == "__main__":
    main()
