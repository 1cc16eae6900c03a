"""Sixteen prompts that leave nothing open, each with the scene that it describes: where a test may look for which colour and shape."""
import json

from scenes import Lettering, Scene, Thing
from vocabulary import RADIUS

CANVAS = (256, 256)
COLUMN = {"left": 56, "": 128, "right": 200}
ROW = {None: {"top": 56, "": 128, "bottom": 200}, "top": {"": 150, "bottom": 198}, "bottom": {"top": 58, "": 106}}  # by where the lettering stands


def caption(headline, background, *elements):
    return json.dumps({"high_level_description": headline, "compositional_deconstruction": {"background": background, "elements": list(elements)}},
                      separators=(",", ":"))


def obj(description):
    return {"type": "obj", "desc": description}


def word(text, description):
    return {"type": "text", "text": text, "desc": description}


def lettering(text, colour, place):
    return Lettering((text,), colour, place, "small", "small")


def thing(size, colour, shape, place, text_place=None):
    """A single shape at one of nine places, pushed inside the canvas and off the lettering."""
    radius = RADIUS[size]
    words = "" if place == "center" else place
    x = COLUMN[next((w for w in ("left", "right") if w in words), "")]
    y = ROW[text_place][next((w for w in ("top", "bottom") if w in words), "")]
    low = 72 + radius if text_place == "top" else radius + 6
    high = 184 - radius if text_place == "bottom" else 250 - radius
    return Thing(shape, colour, min(max(x, radius + 6), 250 - radius), min(max(y, low), high), radius, size, place)


def row(number, colour, shape, y=128):
    step = {2: 92, 3: 74, 4: 60, 5: 49}[number]
    return [Thing(shape, colour, 128 + (i - (number - 1) / 2) * step, y, 0.4 * step, "medium", "row") for i in range(number)]


def spots(*entries):
    return [Thing(shape, colour, x, y, radius, "medium", "") for colour, shape, x, y, radius in entries]


def scene(kind, background, things, text=None):
    return Scene(CANVAS, kind, ("solid", background, background), things, text, fully_named=True)


ASKED = [
    ("a large red circle in the center on a white background", scene("one", "white", [thing("large", "red", "circle", "center")])),
    ("a small yellow star in the top right on a navy background", scene("one", "navy", [thing("small", "yellow", "star", "top right")])),
    ("a large green cross in the bottom left on a pink background", scene("one", "pink", [thing("large", "green", "cross", "bottom left")])),
    ("a blue diamond on the right on a white background", scene("one", "white", [thing("medium", "blue", "diamond", "right")])),
    ("three orange stars in a row on a blue background", scene("count", "blue", row(3, "orange", "star"))),
    ("five white circles in a row on a black background", scene("count", "black", row(5, "white", "circle"))),
    ("two purple squares in a row on a yellow background", scene("count", "yellow", row(2, "purple", "square"))),
    ("a green triangle to the left of a red square on a yellow background",
     scene("two", "yellow", spots(("green", "triangle", 68, 128, 36), ("red", "square", 188, 128, 36)))),
    ("a blue ring above a white heart on a purple background", scene("two", "purple", spots(("blue", "ring", 128, 66, 36), ("white", "heart", 128, 190, 36)))),
    ("a red circle on the left, a yellow square in the center and a blue triangle on the right on a white background",
     scene("three", "white", spots(("red", "circle", 52, 128, 30), ("yellow", "square", 128, 128, 30), ("blue", "triangle", 204, 128, 30)))),
    ("a teal star inside a white circle on an orange background",
     scene("nest", "orange", spots(("white", "circle", 128, 128, 74), ("teal", "star", 128, 128, 31.08)))),
    ('a large pink heart in the center and the word "LOVE" in white at the bottom on a navy background',
     scene("one", "navy", [thing("large", "pink", "heart", "center", "bottom")], lettering("LOVE", "white", "bottom"))),
    ('four red diamonds in a row and the word "SALE" in black at the bottom on a white background',
     scene("count", "white", row(4, "red", "diamond", 106), lettering("SALE", "black", "bottom"))),
    (caption("flat poster with a large yellow moon in the top right", "solid purple", obj("large yellow moon, top right")),
     scene("one", "purple", [thing("large", "yellow", "moon", "top right")])),
    (caption("card with two white crosses in a row", "solid red", obj("two white crosses in a row")), scene("count", "red", row(2, "white", "cross"))),
    (caption("flat illustration with a white ring and a word", "solid teal", obj("large white ring, center"), word("OPEN", "navy, top")),
     scene("one", "teal", [thing("large", "white", "ring", "center", "top")], lettering("OPEN", "navy", "top"))),
]
