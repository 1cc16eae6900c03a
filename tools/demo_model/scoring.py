"""Is everything in the picture that the scene says, in its place, and nothing else? numpy only. Plain backgrounds.

A shape counts when, among the ten, it fits the pixels of its colour best (over shifts of up to 14 pixels and 5 % in size) and covers them well; a letter
when it correlates best among the 36; a scene when background, every shape and every letter count and nothing stands where nothing should.
"""
import functools

import numpy

from painting import load_atlas
from shapes import DISTANCE
from vocabulary import CELL, GLYPHS, RGB, SHAPES

ROUGH_SHIFTS = [(dx, dy) for dy in range(-12, 13, 4) for dx in range(-12, 13, 4)]
LEAST_FIT = 0.70  # intersection over union with the asked shape
FAR_FROM_COLOUR = 0.03  # squared distance in RGB: 0.17, more than any shading a network leaves on a flat area
BACKGROUND_TOLERANCE = 0.08
LEAST_CORRELATION = 0.70
LETTER_SHIFTS = [(dx, dy) for dy in (-5, -3, -2, -1, 0, 1, 2, 3, 5) for dx in (-2, 0, 2)]
STRAY_DISTANCE, STRAY_SHARE = 0.25, 0.004  # of the canvas: a disc of 9 pixels radius on 256 x 256


@functools.lru_cache(maxsize=256)
def silhouettes(radius, reach):
    """Every shape at a radius, as rows of 0/1 over a window of (2 reach)² pixels."""
    offset = numpy.arange(2 * reach, dtype=numpy.float32) + 0.5 - reach
    inside = numpy.stack([DISTANCE[shape](numpy, offset[None, :], offset[:, None], numpy.float32(radius)) < 0 for shape in SHAPES])
    return inside.reshape(len(SHAPES), -1).astype(numpy.float32)


def window(plane, x, y, reach, shift=(0, 0)):
    """Square of (2 reach)² pixels around a point, zeros outside the canvas."""
    result = numpy.zeros((2 * reach, 2 * reach), numpy.float32)
    left, top = round(x) - reach + shift[0], round(y) - reach + shift[1]
    x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + 2 * reach, plane.shape[1]), min(top + 2 * reach, plane.shape[0])
    if x0 < x1 and y0 < y1:
        result[y0 - top : y1 - top, x0 - left : x1 - left] = plane[y0:y1, x0:x1]
    return result


def fits(thing_radius, mask, x, y, reach, shifts):
    """Intersection over union [shapes, shifts] of every shape at (x, y) with the mask moved by every shift."""
    shapes = silhouettes(round(thing_radius, 3), reach)
    seen = numpy.stack([window(mask, x, y, reach, shift).ravel() for shift in shifts])
    common = shapes @ seen.T
    return common / numpy.maximum(shapes.sum(1)[:, None] + seen.sum(1)[None] - common, 1)


def score_thing(thing, mask, margin):
    """(is the asked shape the best of ten, its intersection over union). First roughly where it lies, then to the pixel and in size: a circle that is
    two pixels off fits a hexagon better than itself."""
    reach = int(thing.radius + margin)
    rough = fits(thing.radius, mask, thing.x, thing.y, reach, ROUGH_SHIFTS)
    dx, dy = ROUGH_SHIFTS[rough.max(0).argmax()]
    fine = [(dx + i, dy + j) for j in (-2, -1, 0, 1, 2) for i in (-2, -1, 0, 1, 2)]
    best = numpy.max([fits(thing.radius * factor, mask, thing.x, thing.y, reach, fine).max(1) for factor in (0.95, 1, 1.05)], axis=0)
    asked = SHAPES.index(thing.shape)
    return bool(best[asked] == best.max() and best[asked] > 0.25), float(best[asked])


@functools.lru_cache(maxsize=2)
def letter_templates(size):
    templates = load_atlas()[size].reshape(len(GLYPHS), -1)
    return normalised(templates)


def normalised(rows):
    rows = rows - rows.mean(1, keepdims=True)
    return rows / numpy.maximum(numpy.linalg.norm(rows, axis=1, keepdims=True), 1e-3)


def score_letters(scene, pixels):
    """One bool a letter. `pixels` becomes the share of the letters' colour, so low contrast is no excuse and no help."""
    lettering = scene.lettering
    background, colour = numpy.array(RGB[scene.background[1]], numpy.float32), numpy.array(RGB[lettering.colour], numpy.float32)
    direction = colour - background
    share = numpy.clip(((pixels - background) @ direction) / (direction @ direction), 0, 1)
    share = numpy.pad(share, 8)
    width, height = CELL[lettering.size]
    right = []
    for line, word in enumerate(lettering.lines):
        left, top = lettering.line_corner(scene.canvas, line)
        for index, letter in enumerate(word):
            x, y = left + index * width + 8, top + 8
            seen = numpy.stack([share[y + dy : y + dy + height, x + dx : x + dx + width].ravel() for dx, dy in LETTER_SHIFTS])
            correlation = (normalised(seen) @ letter_templates(lettering.size).T).max(0)
            asked = GLYPHS.index(letter)
            right.append(bool(correlation.argmax() == asked and correlation[asked] > LEAST_CORRELATION))
    return right


def nothing_else(scene, pixels):
    height, width = pixels.shape[:2]
    y, x = numpy.mgrid[0:height, 0:width]
    free = numpy.ones((height, width), bool)
    for thing in scene.things:
        free &= (x - thing.x) ** 2 + (y - thing.y) ** 2 > (1.25 * thing.radius + 14) ** 2
    if scene.lettering:
        cell_width, cell_height = CELL[scene.lettering.size]
        for line, word in enumerate(scene.lettering.lines):
            left, top = scene.lettering.line_corner(scene.canvas, line)
            free[max(top - 6, 0) : top + cell_height + 6, max(left - 6, 0) : left + len(word) * cell_width + 6] = False
    away = ((pixels - numpy.array(RGB[scene.background[1]], numpy.float32)) ** 2).sum(2) > STRAY_DISTANCE**2
    return bool((away & free).sum() <= STRAY_SHARE * width * height)


def score_picture(scene, pixels):
    """pixels [h, w, 3], 0..1 or uint8. What is right in it, part by part; 'scene' when all is."""
    pixels = pixels.astype(numpy.float32) / 255 if pixels.dtype == numpy.uint8 else numpy.clip(pixels, 0, 1).astype(numpy.float32)
    if pixels.shape[:2] != (scene.canvas[1], scene.canvas[0]):
        raise ValueError(f"picture of {pixels.shape[1]}x{pixels.shape[0]} for a scene of {scene.canvas[0]}x{scene.canvas[1]}")
    colours = sorted({scene.background[1]} | {thing.colour for thing in scene.things} | ({scene.lettering.colour} if scene.lettering else set()))
    distance = numpy.stack([((pixels - numpy.array(RGB[colour], numpy.float32)) ** 2).sum(2) for colour in colours])
    nearest, is_near = distance.argmin(0), distance.min(0) < FAR_FROM_COLOUR
    border = numpy.median(numpy.concatenate([pixels[:, 2:6].reshape(-1, 3), pixels[:, -6:-2].reshape(-1, 3)]), axis=0)
    result = {"background": bool(numpy.abs(border - RGB[scene.background[1]]).max() < BACKGROUND_TOLERANCE), "shapes": [], "fits": [],
              "letters": score_letters(scene, pixels) if scene.lettering else [], "nothing_else": nothing_else(scene, pixels)}
    for index, thing in enumerate(scene.things):
        mask = (nearest == colours.index(thing.colour)) & is_near
        if scene.kind == "nest" and index == 0:  # the outer shape with the inner one in it
            mask = nearest != colours.index(scene.background[1])
        is_shape, fit = score_thing(thing, mask.astype(numpy.float32), 9 if scene.kind == "count" else 14)
        result["shapes"].append(is_shape)
        result["fits"].append(fit)
    result["things"] = [is_shape and fit > LEAST_FIT for is_shape, fit in zip(result["shapes"], result["fits"])]
    result["scene"] = result["background"] and all(result["things"]) and all(result["letters"]) and result["nothing_else"]
    return result


def summary(results):
    """Shares over many pictures."""
    def share(values):
        values = list(values)
        return round(sum(values) / len(values), 3) if values else None

    return {"scenes": len(results), "scene": share(r["scene"] for r in results), "shape": share(v for r in results for v in r["shapes"]),
            "thing": share(v for r in results for v in r["things"]), "letter": share(v for r in results for v in r["letters"]),
            "word": share(all(r["letters"]) for r in results if r["letters"]), "nothing else": share(r["nothing_else"] for r in results)}
