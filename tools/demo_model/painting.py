"""Paints packed scenes: anti-aliased shapes from signed distances, letters from a baked atlas. numpy, or torch on any device."""
import pathlib

import numpy

from shapes import DISTANCE
from vocabulary import BACKGROUNDS, CELL, GLYPHS, MOST_GLYPHS, MOST_THINGS, SHAPES

STRIPE = 32  # pixels
ATLAS = pathlib.Path(__file__).with_name("glyphs.npz")


def load_atlas():
    """size -> coverage 0..1 of every glyph [glyphs, height, width], DejaVu Sans Mono Bold."""
    with numpy.load(ATLAS) as file:
        return {size: file[size].astype(numpy.float32) / 255 for size in CELL}


def bake_atlas(font_path):
    """Draws the glyphs four times as large and averages. Needs Pillow and the font; glyphs.npz holds the result."""
    from PIL import Image, ImageDraw, ImageFont

    atlas = {}
    for size, (width, height) in CELL.items():
        font = ImageFont.truetype(font_path, 4 * int(width / 0.602))  # 0.602 em is the font's advance
        cells = []
        for glyph in GLYPHS:
            cell = Image.new("L", (4 * width, 4 * height), 0)
            ImageDraw.Draw(cell).text((2 * width, 2 * height), glyph, fill=255, font=font, anchor="mm")
            cells.append(numpy.asarray(cell.resize((width, height), Image.BOX)))
        atlas[size] = numpy.stack(cells)
    numpy.savez_compressed(ATLAS, **atlas)


class Painter:
    """painter(packed, begin, end) -> [n, 3, height, width] in 0..1. All scenes of a packed set share one canvas.

    Work is grouped by slot and shape, not by scene, so a batch of hundreds costs as many device calls as a batch of one.
    """

    def __init__(self, canvas, xp=numpy, device=None):
        self.xp, self.device, (self.width, self.height) = xp, device, canvas
        self.atlas = {size: self.put(glyphs) for size, glyphs in load_atlas().items()}
        self.x = self.put((numpy.arange(self.width, dtype=numpy.float32) + 0.5)[None, None, :])
        self.y = self.put((numpy.arange(self.height, dtype=numpy.float32) + 0.5)[None, :, None])

    def put(self, array):
        return array if self.xp is numpy else self.xp.from_numpy(numpy.ascontiguousarray(array)).to(self.device, non_blocking=True)

    def __call__(self, packed, begin=0, end=None):
        part = {name: array[begin:end] for name, array in packed.items()}
        image = self.surface(part)
        for slot in range(MOST_THINGS):
            for index, shape in enumerate(SHAPES):
                rows = numpy.flatnonzero(part["shape"][:, slot] == index)
                if rows.size:
                    self.thing(image, rows, shape, part["geometry"][rows, slot], part["colour"][rows, slot])
        self.lettering(image, part)
        return image

    def surface(self, part):
        kinds = {name: self.put((part["surface"] == index).astype(numpy.float32)[:, None, None]) for index, name in enumerate(BACKGROUNDS)}
        mix = (kinds["vertical"] * (self.y / self.height) + kinds["horizontal"] * (self.x / self.width)
               + kinds["halves"] * self.xp.clip(self.y - self.height / 2 + 0.5, 0, 1) + kinds["stripes"] * ((self.x - 0.5) // STRIPE % 2))[:, None]
        colours = self.put(part["surface_colours"])
        return colours[:, 0, :, None, None] * (1 - mix) + colours[:, 1, :, None, None] * mix

    def thing(self, image, rows, shape, geometry, colour):
        x, y, radius = (self.put(numpy.ascontiguousarray(geometry[:, k]))[:, None, None] for k in range(3))
        cover = self.xp.clip(0.5 - DISTANCE[shape](self.xp, self.x - x, self.y - y, radius), 0, 1)[:, None]
        rows = self.put(rows)
        image[rows] = image[rows] + cover * (self.put(colour)[:, :, None, None] - image[rows])

    def lettering(self, image, part):
        for is_large, size in enumerate(CELL):
            width, height = CELL[size]
            columns, lines = self.put(numpy.arange(width))[None, None, :], self.put(numpy.arange(height))[None, :, None]
            for slot in range(MOST_GLYPHS):
                rows = numpy.flatnonzero((part["glyph"][:, slot] >= 0) & (part["large"] == is_large))
                if not rows.size:
                    continue
                x = self.put(part["corner"][rows, slot, 0])[:, None, None] + columns
                y = self.put(part["corner"][rows, slot, 1])[:, None, None] + lines
                cover = self.atlas[size][self.put(part["glyph"][rows, slot])][..., None]
                which = self.put(rows)[:, None, None]
                x, y = self.xp.clip(x, 0, self.width - 1), self.xp.clip(y, 0, self.height - 1)
                under = image[which, :, y, x]
                image[which, :, y, x] = under + cover * (self.put(part["text_colour"][rows])[:, None, None, :] - under)


def to_bytes(image):
    """[n, 3, h, w] in 0..1 to [n, h, w, 3] uint8, numpy."""
    return numpy.rint(numpy.clip(image, 0, 1) * 255).astype(numpy.uint8).transpose(0, 2, 3, 1)
