"""How the tests of the program call it and look at what it made. Standard library only."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

PROGRAM = os.environ["OCTAVO_PROGRAM"]
SOURCE = pathlib.Path(os.environ["OCTAVO_SOURCE_DIR"])
DEMO = SOURCE / "models" / "demo"
GOLDEN = SOURCE / "tests" / "golden" / "data"
TINY = GOLDEN / "tiny-hd64"

# The exit codes of include/octavo/error.h.
INVALID, UNSUPPORTED, DAMAGED, NO_MEMORY, CANCELLED = 2, 3, 4, 5, 130

# A picture of the tiny model in a fraction of a second.
FAST = ["--model", str(TINY), "--width", "32", "--height", "32", "--steps", "2", "--guidance", "2"]


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="octavo-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def call(self, *arguments, stdin=b"", env=None, timeout=600):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OCTAVO_")}
        environment.update(env or {})
        return subprocess.run([PROGRAM, *map(os.fsencode, map(os.fspath, map(str_or_bytes, arguments)))], input=stdin, capture_output=True, timeout=timeout,
                              cwd=self.folder, env=environment, check=False)

    def succeed(self, *arguments, **keywords):
        done = self.call(*arguments, **keywords)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done

    def refuse(self, code, *arguments, contains=(), **keywords):
        """The program must end with `code` and one line on standard error that holds every text of `contains`, and write nothing."""
        before = listing(self.folder)
        done = self.call(*arguments, **keywords)
        text = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, text)
        lines = [line for line in text.splitlines() if not line.startswith("note: ")]
        self.assertEqual(len(lines), 1, f"one line wanted:\n{text}")
        self.assertTrue(lines[0].startswith("octavo: "), text)
        for part in contains:
            self.assertIn(part, lines[0])
        self.assertEqual(done.stdout, b"")
        self.assertEqual(listing(self.folder), before, "something was written")
        return lines[0]

    def draw(self, name, *arguments, prompt="two red squares", model=FAST):
        path = self.folder / name
        self.succeed("generate", *model, "--prompt", prompt, "--output", path, *arguments)
        return path.read_bytes()

    def copy_model(self, source=TINY):
        """A copy of a model whose files a test may break: links to the originals, made real on the first write."""
        target = self.folder / "model"
        shutil.copytree(source, target)
        return target


def str_or_bytes(argument):
    return argument if isinstance(argument, (bytes, os.PathLike)) else str(argument)


def listing(folder):
    return sorted(str(path) for path in folder.rglob("*"))


def edit_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def read_safetensors(path):
    """name -> (dtype, shape, bytes), and the file's metadata."""
    blob = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    start = 8 + length
    return {name: (entry["dtype"], entry["shape"], blob[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]) for name, entry in header.items()}, metadata


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_png(blob):
    """(width, height, RGB bytes, text chunks) of an 8-bit RGB PNG."""
    assert blob[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, texts, width, height = 8, b"", {}, 0, 0
    while at < len(blob):
        (length,) = struct.unpack(">I", blob[at : at + 4])
        kind, body = blob[at + 4 : at + 8], blob[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", blob[at + 8 + length : at + 12 + length])[0]
        at += 12 + length
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert (depth, colour) == (8, 2)
        elif kind == b"IDAT":
            packed += body
        elif kind == b"tEXt":
            key, text = body.split(b"\0", 1)
            texts[key.decode("latin-1")] = text.decode("latin-1")
        elif kind == b"zTXt":
            key, rest = body.split(b"\0", 1)
            texts[key.decode("latin-1")] = zlib.decompress(rest[1:]).decode("latin-1")
        elif kind == b"iTXt":
            key, rest = body.split(b"\0", 1)
            compressed, rest = rest[0], rest[2:]
            text = rest.split(b"\0", 2)[2]
            texts[key.decode("latin-1")] = (zlib.decompress(text) if compressed else text).decode()
    raw, stride = zlib.decompress(packed), 3 * width
    rows, previous = [], bytes(stride)
    for y in range(height):
        filter_kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for x in range(stride):
            left = line[x - 3] if x >= 3 else 0
            up, corner = previous[x], previous[x - 3] if x >= 3 else 0
            if filter_kind == 1:
                line[x] = (line[x] + left) & 255
            elif filter_kind == 2:
                line[x] = (line[x] + up) & 255
            elif filter_kind == 3:
                line[x] = (line[x] + (left + up) // 2) & 255
            elif filter_kind == 4:
                guess = left + up - corner
                nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
                line[x] = (line[x] + nearest) & 255
        rows.append(bytes(line))
        previous = bytes(line)
    return width, height, b"".join(rows), texts
