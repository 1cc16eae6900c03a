"""Random scenes: what stands where on which canvas. Parameters only; captions.py says them, painting.py draws them."""
import dataclasses
import random

import numpy

from vocabulary import (BACKGROUNDS, CELL, COLOURS, DIGITS, GLYPHS, HELD_COUNTS, HELD_NUMBERS, HELD_PAIRS, HELD_WORDS, LETTERS, LONGEST_WORD,
                        MOST_GLYPHS, MOST_THINGS, PLACES, RADIUS, RGB, SHAPES, WORDS)

CANVASES = ((256, 256), (320, 192), (192, 320))  # width, height
TEXT_BAND = 72  # pixels that a line of lettering at the top or bottom keeps free of shapes
TEXT_CENTRE = 38  # of that line, from the edge
EDGE = 6  # pixels between a shape and the canvas's edge


@dataclasses.dataclass
class Thing:
    shape: str
    colour: str
    x: float
    y: float
    radius: float
    size: str  # as a caption calls it
    place: str


@dataclasses.dataclass
class Lettering:
    lines: tuple  # one or two words
    colour: str
    place: str  # top, center, bottom
    size: str  # small, large
    default_size: str  # the size that is drawn when a caption names none
    shift: int = 0  # pixels downwards

    def line_corner(self, canvas, line):
        """Left and top of a line's first cell."""
        width, height = CELL[self.size]
        centre = {"top": TEXT_CENTRE, "center": canvas[1] // 2, "bottom": canvas[1] - TEXT_CENTRE}[self.place]
        return canvas[0] // 2 - len(self.lines[line]) * width // 2, centre - len(self.lines) * height // 2 + line * height + self.shift


@dataclasses.dataclass
class Scene:
    canvas: tuple
    kind: str  # one, two, count, three, nest, word
    background: tuple  # kind, first colour, second colour
    things: list = dataclasses.field(default_factory=list)
    lettering: Lettering = None
    relation: str = ""  # of kind two: beside, above, diagonal
    fully_named: bool = False  # its caption leaves nothing open


def default_size(lines, canvas, kind):
    """Lettering beside shapes is small; alone it is as large as fits."""
    fits = max(map(len, lines)) * CELL["large"][0] <= canvas[0] - 8
    return "large" if kind == "word" and fits else "small"


def random_word(rng, longest=LONGEST_WORD):
    while True:
        source = rng.random()
        if source < 0.45:
            word = rng.choice(WORDS)
        elif source < 0.8:
            word = "".join(rng.choices(LETTERS, k=rng.choice((1, 2, 3, 3, 4, 4, 5, 5, 6, 6))))
        elif source < 0.92:
            word = "".join(rng.choices(DIGITS, k=rng.choice((1, 2, 2, 3, 4, 4))))
        else:
            word = "".join(rng.choices(GLYPHS, k=rng.choice((2, 3, 4, 5))))
        if len(word) <= longest and word not in HELD_WORDS and word not in HELD_NUMBERS:
            return word


class Composer:
    """Draws the parameters of one scene. `still`: no jitter; `solid`: plain backgrounds only."""

    KINDS = {"one": 25, "two": 19, "count": 16, "three": 12, "nest": 11, "word": 17}
    BACKGROUND_WEIGHTS = (60, 14, 10, 8, 8)

    def __init__(self, rng, canvas, still=False, solid=False):
        self.rng, self.canvas, self.still, self.solid = rng, canvas, still, solid

    def compose(self, kind=None):
        rng = self.rng
        kind = kind or rng.choices(list(self.KINDS), list(self.KINDS.values()))[0]
        surface = "solid" if self.solid else rng.choices(BACKGROUNDS, self.BACKGROUND_WEIGHTS)[0]
        first = rng.choice(list(COLOURS))
        second = first if surface == "solid" else self.colour({first})
        self.scene = Scene(self.canvas, kind, (surface, first, second))
        self.used = {first, second}
        self.text_place = "center" if kind == "word" else rng.choice(("top", "bottom")) if rng.random() < 0.45 else None
        self.top = TEXT_BAND if self.text_place == "top" else 0
        self.bottom = self.canvas[1] - (TEXT_BAND if self.text_place == "bottom" else 0)
        lift = 22 * self.canvas[1] / 256
        self.middle = self.canvas[1] / 2 + {"top": lift, "bottom": -lift}.get(self.text_place, 0)
        if kind != "word":
            getattr(self, kind)()
        if self.text_place:
            self.letter()
        return self.scene

    def jitter(self, reach):
        return 0.0 if self.still else self.rng.uniform(-reach, reach)

    def colour(self, avoid, shape=None):
        while True:
            colour = self.rng.choice(list(COLOURS))
            if colour not in avoid and (colour, shape) not in HELD_PAIRS:
                return colour

    def shapes_and_colours(self, count):
        shapes, colours = [self.rng.choice(SHAPES) for _ in range(count)], []
        for shape in shapes:
            colours.append(self.colour(self.used | set(colours), shape))
        return list(zip(shapes, colours))

    def add(self, shape, colour, x, y, size, place, radius=None):
        """Pushes the shape inside the canvas and off the lettering's band."""
        radius = (radius or RADIUS[size]) * (1 + self.jitter(0.04))
        low, high = self.top + radius + (0 if self.top else EDGE), self.bottom - radius - (0 if self.bottom < self.canvas[1] else EDGE)
        x = min(max(x + self.jitter(4), radius + EDGE), self.canvas[0] - EDGE - radius)
        y = min(max(y + self.jitter(4), low), high) if low <= high else (low + high) / 2
        self.scene.things.append(Thing(shape, colour, x, y, radius, size, place))

    def column(self, index):
        return (min(56, 0.23 * self.canvas[0]), self.canvas[0] / 2, self.canvas[0] - min(56, 0.23 * self.canvas[0]))[index]

    def row(self, index):
        edge = min(56, 0.23 * self.canvas[1])
        return (self.top + edge, self.middle, self.bottom - edge)[index]

    def low_with_text(self):
        return self.text_place is not None and self.canvas[1] < 256

    def one(self):
        rows = (1,) if self.low_with_text() else {"top": (1, 2), "bottom": (0, 1), None: (0, 1, 2)}[self.text_place]
        column, row = self.rng.randrange(3), self.rng.choice(rows)
        (shape, colour), = self.shapes_and_colours(1)
        self.add(shape, colour, self.column(column), self.row(row), self.rng.choice(("small", "medium", "large", "large")), PLACES[column, row])

    def two(self):
        rng, (width, height) = self.rng, self.canvas
        relations = ["beside"] * 2 + ([] if self.text_place else ["above"]) + ([] if self.low_with_text() else ["diagonal"])
        self.scene.relation = rng.choice(relations)
        sizes = [rng.choice(("small", "medium", "medium")) for _ in range(2)]
        if self.scene.relation == "beside":
            if not self.text_place and width >= 256 and rng.random() < 0.2:
                sizes[rng.randrange(2)] = "large"
            spots = [(0.265 * width, self.middle, "left"), (0.735 * width, self.middle, "right")]
        elif self.scene.relation == "above":
            spots = [(width / 2, 0.26 * height, "top"), (width / 2, 0.74 * height, "bottom")]
        else:
            if self.text_place:
                sizes = ["small", "small"]
            high, low, near, far = self.top + 46, self.bottom - 46, self.column(0), self.column(2)
            spots = ([(near, high, "top left"), (far, low, "bottom right")], [(far, high, "top right"), (near, low, "bottom left")])[rng.randrange(2)]
        for (shape, colour), (x, y, place), size in zip(self.shapes_and_colours(2), spots, sizes):
            self.add(shape, colour, x, y, size, place)

    def count(self):
        while True:
            number, shape = self.rng.choice((2, 3, 3, 4, 4, 5)), self.rng.choice(SHAPES)
            if (number, shape) not in HELD_COUNTS:
                break
        colour = self.colour(self.used, shape)
        step = {2: 92, 3: 74, 4: 60, 5: 49}[number] * self.canvas[0] / 256
        radius = min(step * 0.4, (self.bottom - self.top) / 2 - 8) * (1 + self.jitter(0.04))
        y = self.middle + self.jitter(4)
        for index in range(number):
            x = self.canvas[0] / 2 + (index - (number - 1) / 2) * step
            self.scene.things.append(Thing(shape, colour, x, y, radius, "medium", "row"))

    def three(self):
        width, height = self.canvas
        pairs = self.shapes_and_colours(3)
        if not self.text_place and self.rng.random() < 0.35:
            cells = sorted(self.rng.sample(list(PLACES), 3), key=lambda cell: (cell[1], cell[0]))
            for (shape, colour), (column, row) in zip(pairs, cells):
                self.add(shape, colour, self.column(column), self.row(row), "small", PLACES[column, row], 26 * min(1, min(width, height) / 256))
            return
        for (shape, colour), x, place in zip(pairs, (0.203, 0.5, 0.797), ("left", "center", "right")):
            self.add(shape, colour, x * width, self.middle, "medium", place, 30 * min(1, width / 256))

    def nest(self):
        outer = self.rng.choice(("circle", "square", "hexagon", "diamond"))
        outer_colour = self.colour(self.used, outer)
        inner = self.rng.choice(SHAPES)
        inner_colour = self.colour({outer_colour} | (self.used if self.still else set()), inner)
        radius = min(60 if self.text_place else 74, (self.bottom - self.top) / 2 - 8) * (1 + self.jitter(0.04))
        x, y = self.canvas[0] / 2 + self.jitter(4), min(max(self.middle, self.top + radius + 4), self.bottom - radius - 4) + self.jitter(3)
        self.scene.things += [Thing(outer, outer_colour, x, y, radius, "large", "center"), Thing(inner, inner_colour, x, y, radius * 0.42, "small", "inside")]

    def letter(self):
        longest = min(LONGEST_WORD, (self.canvas[0] - 8) // CELL["small"][0])
        lines = tuple(random_word(self.rng, longest) for _ in range(2 if self.scene.kind == "word" and self.rng.random() < 0.3 else 1))
        default = default_size(lines, self.canvas, self.scene.kind)
        size = "small" if default == "large" and self.rng.random() < 0.35 else default
        colour = self.colour(self.used | {thing.colour for thing in self.scene.things})
        self.scene.lettering = Lettering(lines, colour, self.text_place, size, default, round(self.jitter(3)))


def random_scene(rng, canvas=None):
    return Composer(rng, canvas or rng.choices(CANVASES, (2, 1, 1))[0]).compose()


def evaluation_scenes(count, seed, held, canvas=CANVASES[0]):
    """Scenes whose captions leave nothing open, on plain backgrounds. held: each uses a pair, a count, a word or a number that training never shows."""
    rng, scenes = random.Random(seed), []
    while len(scenes) < count:
        scene = Composer(rng, canvas, still=True, solid=True).compose()
        scene.fully_named = True
        if not held or hold_out(rng, scene):
            scenes.append(scene)
    return scenes


def hold_out(rng, scene):
    """Puts something unseen into the scene; False where nothing fits."""
    things, lettering = scene.things, scene.lettering
    if lettering:
        longest = (scene.canvas[0] - 8) // CELL["small"][0]
        lettering.lines = tuple(rng.choice([word for word in HELD_WORDS + HELD_NUMBERS if len(word) <= longest]) for _ in lettering.lines)
        lettering.default_size = default_size(lettering.lines, scene.canvas, scene.kind)
        if lettering.default_size == "small":
            lettering.size = "small"
    if scene.kind == "count":
        shapes = [shape for number, shape in HELD_COUNTS if number == len(things)]
        for thing in things:
            thing.shape = shapes[0]
    elif things:
        used = {scene.background[1]} | {thing.colour for thing in things} | ({lettering.colour} if lettering else set())
        pairs = [pair for pair in HELD_PAIRS if pair[0] not in used]
        if not pairs:
            return False
        things[-1].colour, things[-1].shape = rng.choice(pairs)
    return True


def pack(scenes):
    """Flat arrays, one row a scene (all of one canvas), as painting.py draws them."""
    n = len(scenes)
    arrays = {"surface": numpy.zeros(n, numpy.int64), "surface_colours": numpy.zeros((n, 2, 3), numpy.float32),
              "shape": numpy.full((n, MOST_THINGS), -1, numpy.int64), "geometry": numpy.zeros((n, MOST_THINGS, 3), numpy.float32),
              "colour": numpy.zeros((n, MOST_THINGS, 3), numpy.float32), "glyph": numpy.full((n, MOST_GLYPHS), -1, numpy.int64),
              "corner": numpy.zeros((n, MOST_GLYPHS, 2), numpy.int64), "large": numpy.zeros(n, numpy.int64),
              "text_colour": numpy.zeros((n, 3), numpy.float32)}
    for i, scene in enumerate(scenes):
        surface, first, second = scene.background
        arrays["surface"][i], arrays["surface_colours"][i] = BACKGROUNDS.index(surface), (RGB[first], RGB[second])
        for slot, thing in enumerate(scene.things):
            arrays["shape"][i, slot] = SHAPES.index(thing.shape)
            arrays["geometry"][i, slot] = thing.x, thing.y, thing.radius
            arrays["colour"][i, slot] = RGB[thing.colour]
        if scene.lettering:
            arrays["large"][i], arrays["text_colour"][i] = scene.lettering.size == "large", RGB[scene.lettering.colour]
            slot = 0
            for line, word in enumerate(scene.lettering.lines):
                x, y = scene.lettering.line_corner(scene.canvas, line)
                for index, letter in enumerate(word):
                    arrays["glyph"][i, slot] = GLYPHS.index(letter)
                    arrays["corner"][i, slot] = x + index * CELL[scene.lettering.size][0], y
                    slot += 1
    return arrays


