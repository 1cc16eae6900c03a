#!/usr/bin/env python3
"""Puts rows of pictures on one sheet and prints the PSNR of each later row against the first.

contact_sheet.py SHEET.png LABEL a.png b.png … -- LABEL c.png d.png …
"""
import sys

import numpy
from PIL import Image, ImageDraw

MARGIN, LABEL_HEIGHT = 8, 16


def psnr(a, b):
    mean_square = numpy.mean((a.astype(numpy.float64) - b.astype(numpy.float64)) ** 2)
    return float("inf") if mean_square == 0 else 10 * numpy.log10(255.0**2 / mean_square)


def main():
    sheet_path, rest = sys.argv[1], sys.argv[2:]
    rows = []
    while rest:
        end = rest.index("--") if "--" in rest else len(rest)
        rows.append((rest[0], [Image.open(path).convert("RGB") for path in rest[1:end]]))
        rest = rest[end + 1 :]
    width = max(sum(picture.width + MARGIN for picture in pictures) for _, pictures in rows) + MARGIN
    heights = [LABEL_HEIGHT + max(picture.height for picture in pictures) + MARGIN for _, pictures in rows]
    sheet = Image.new("RGB", (width, sum(heights) + MARGIN), "white")
    draw, y = ImageDraw.Draw(sheet), MARGIN
    for (label, pictures), height in zip(rows, heights):
        ratios = ""
        if pictures is not rows[0][1]:
            values = [psnr(numpy.asarray(a), numpy.asarray(b)) for a, b in zip(rows[0][1], pictures)]
            ratios = f"PSNR to {rows[0][0]}: " + ", ".join(f"{value:.1f}" for value in values) + " dB"
            print(f"{label}: {ratios}")
        draw.text((MARGIN, y), f"{label}   {ratios}", fill="black")
        x = MARGIN
        for picture in pictures:
            sheet.paste(picture, (x, y + LABEL_HEIGHT))
            x += picture.width + MARGIN
        y += height
    sheet.save(sheet_path)


if __name__ == "__main__":
    sys.exit(main())
