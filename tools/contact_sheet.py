#!/usr/bin/env python3
"""Puts rows of pictures on one sheet and prints the PSNR of each later row against the first.

contact_sheet.py [--side N] SHEET.png|SHEET.jpg LABEL a.png b.png … -- LABEL c.png d.png …

--side: shown N pixels high (the PSNR is of the whole pictures). A label "-" is not written.
"""
import sys

import numpy
from PIL import Image, ImageDraw

MARGIN, LABEL_HEIGHT = 8, 16


def psnr(a, b):
    mean_square = numpy.mean((a.astype(numpy.float64) - b.astype(numpy.float64)) ** 2)
    return float("inf") if mean_square == 0 else 10 * numpy.log10(255.0**2 / mean_square)


def shown(picture, side):
    return picture if side is None else picture.resize((round(picture.width * side / picture.height), side), Image.LANCZOS)


def main():
    words, side = sys.argv[1:], None
    if words[0] == "--side":
        side, words = int(words[1]), words[2:]
    sheet_path, rest = words[0], words[1:]
    rows = []
    while rest:
        end = rest.index("--") if "--" in rest else len(rest)
        rows.append((rest[0], [Image.open(path).convert("RGB") for path in rest[1:end]]))
        rest = rest[end + 1 :]
    small = [[shown(picture, side) for picture in pictures] for _, pictures in rows]
    width = max(sum(picture.width + MARGIN for picture in pictures) for pictures in small) + MARGIN
    heads = [0 if label == "-" else LABEL_HEIGHT for label, _ in rows]
    heights = [head + max(picture.height for picture in pictures) + MARGIN for head, pictures in zip(heads, small)]
    sheet = Image.new("RGB", (width, sum(heights) + MARGIN), "white")
    draw, y = ImageDraw.Draw(sheet), MARGIN
    for (label, pictures), small_pictures, head, height in zip(rows, small, heads, heights):
        ratios = ""
        if pictures is not rows[0][1]:
            values = [psnr(numpy.asarray(a), numpy.asarray(b)) for a, b in zip(rows[0][1], pictures)]
            ratios = f"PSNR to {rows[0][0]}: " + ", ".join(f"{value:.1f}" for value in values) + " dB"
            print(f"{label}: {ratios}")
        if head:
            draw.text((MARGIN, y), f"{label}   {ratios}", fill="black")
        x = MARGIN
        for picture in small_pictures:
            sheet.paste(picture, (x, y + head))
            x += picture.width + MARGIN
        y += height
    sheet.save(sheet_path, optimize=True, quality=75, subsampling=0)


if __name__ == "__main__":
    sys.exit(main())
