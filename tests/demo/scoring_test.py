#!/usr/bin/env python3
"""The scenes that the demo model learns from, and the scorer that judges it: right on painted truth, wrong on everything that was changed. numpy only."""
import copy
import os
import pathlib
import random
import sys
import unittest

import numpy

SOURCE = pathlib.Path(os.environ["OCTAVO_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "tools" / "demo_model"))

import captions  # noqa: E402
import painting  # noqa: E402
import scenes  # noqa: E402
import scoring  # noqa: E402
import shapes  # noqa: E402
import vocabulary  # noqa: E402
from asked import ASKED  # noqa: E402


def paint(scene):
    return painting.to_bytes(painting.Painter(scene.canvas)(scenes.pack([scene])))[0]


def truth(count=16):
    """Scenes of every canvas, in and held-out."""
    return [scene for canvas in scenes.CANVASES for held in (False, True) for scene in scenes.evaluation_scenes(count, 3 + held, held, canvas)]


class Truth(unittest.TestCase):
    def test_painted_scenes_are_right(self):
        asked = truth()
        results = [scoring.score_picture(scene, paint(scene)) for scene in asked]
        wrong = [(scene, result) for scene, result in zip(asked, results) if not result["scene"]]
        self.assertLessEqual(len(wrong), len(asked) // 100, wrong[:2])

    def test_the_sixteen_prompts_describe_scenes_that_can_be_painted(self):
        for prompt, scene in ASKED:
            self.assertTrue(scoring.score_picture(scene, paint(scene))["scene"], prompt)


class Changed(unittest.TestCase):
    """A changed copy is painted and held against the scene that was asked: it must never count as right."""

    def refuse(self, change, applies):
        rng, tried = random.Random(1), 0
        for scene in truth():
            if not applies(scene):
                continue
            other = copy.deepcopy(scene)
            change(rng, other)
            self.assertFalse(scoring.score_picture(scene, paint(other))["scene"], (scene, other))
            tried += 1
        self.assertGreaterEqual(tried, 20)

    def test_another_shape(self):
        def change(rng, scene):
            thing = rng.choice(scene.things)
            thing.shape = rng.choice([shape for shape in vocabulary.SHAPES if shape != thing.shape])
        self.refuse(change, lambda scene: scene.things)

    def test_another_colour(self):
        def change(rng, scene):
            used = {scene.background[1]} | {thing.colour for thing in scene.things}
            rng.choice(scene.things).colour = rng.choice([colour for colour in vocabulary.COLOURS if colour not in used])
        self.refuse(change, lambda scene: scene.things and scene.kind != "nest")

    def test_another_inner_colour(self):
        def change(rng, scene):
            used = {scene.background[1]} | {thing.colour for thing in scene.things}
            scene.things[1].colour = rng.choice([colour for colour in vocabulary.COLOURS if colour not in used])
        rng, tried = random.Random(1), 0
        for scene in truth(60):
            if scene.kind == "nest":
                other = copy.deepcopy(scene)
                change(rng, other)
                self.assertFalse(scoring.score_picture(scene, paint(other))["scene"], (scene, other))
                tried += 1
        self.assertGreaterEqual(tried, 10)

    def test_another_background(self):
        def change(rng, scene):
            used = {scene.background[1]} | {thing.colour for thing in scene.things} | ({scene.lettering.colour} if scene.lettering else set())
            colour = rng.choice([colour for colour in vocabulary.COLOURS if colour not in used])
            scene.background = ("solid", colour, colour)
        self.refuse(change, lambda scene: True)

    def test_one_missing(self):
        self.refuse(lambda rng, scene: scene.things.pop(), lambda scene: scene.things)

    def test_one_too_many(self):
        def change(rng, scene):
            thing = copy.deepcopy(scene.things[0])
            thing.x, thing.y, thing.radius = 30, scene.canvas[1] - 30, 20
            scene.things.append(thing)

        def applies(scene):
            corner_is_free = all(abs(thing.x - 30) > 1.3 * thing.radius + 38 or abs(thing.y - scene.canvas[1] + 30) > 1.3 * thing.radius + 38 for thing in scene.things)
            return 0 < len(scene.things) < vocabulary.MOST_THINGS and corner_is_free and not scene.lettering
        self.refuse(change, applies)

    def test_moved(self):
        def change(rng, scene):
            scene.things[0].x += 40 if scene.things[0].x < scene.canvas[0] / 2 else -40
        self.refuse(change, lambda scene: scene.things)

    def test_left_and_right_exchanged(self):
        def change(rng, scene):
            a, b = scene.things[0], scene.things[-1]
            a.shape, a.colour, b.shape, b.colour = b.shape, b.colour, a.shape, a.colour
        rng, tried = random.Random(1), 0
        for scene in truth(60):
            if scene.kind in ("two", "three") and (scene.things[0].shape, scene.things[0].colour) != (scene.things[-1].shape, scene.things[-1].colour):
                other = copy.deepcopy(scene)
                change(rng, other)
                self.assertFalse(scoring.score_picture(scene, paint(other))["scene"], (scene, other))
                tried += 1
        self.assertGreaterEqual(tried, 20)

    def test_one_letter_wrong(self):
        def change(rng, scene):
            line = rng.randrange(len(scene.lettering.lines))
            word = scene.lettering.lines[line]
            at = rng.randrange(len(word))
            letter = rng.choice([glyph for glyph in vocabulary.GLYPHS if glyph != word[at]])
            lines = list(scene.lettering.lines)
            lines[line] = word[:at] + letter + word[at + 1 :]
            scene.lettering.lines = tuple(lines)
        self.refuse(change, lambda scene: scene.lettering)

    def test_letters_missing(self):
        def change(rng, scene):
            scene.lettering = None
        self.refuse(change, lambda scene: scene.lettering)

    def test_noise_and_emptiness(self):
        rng = numpy.random.default_rng(1)
        for scene in truth(5):
            height, width = scene.canvas[1], scene.canvas[0]
            self.assertFalse(scoring.score_picture(scene, rng.integers(0, 256, (height, width, 3), numpy.uint8))["scene"])
            flat = numpy.full((height, width, 3), numpy.array(vocabulary.RGB[scene.background[1]]) * 255).astype(numpy.uint8)
            self.assertFalse(scoring.score_picture(scene, flat)["scene"])

    def test_a_picture_of_another_size_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "64x32"):
            scoring.score_picture(ASKED[0][1], numpy.zeros((32, 64, 3), numpy.uint8))


class Scenes(unittest.TestCase):
    def scenes(self):
        rng = random.Random(5)
        return [scenes.random_scene(rng) for _ in range(3000)]

    def test_training_never_shows_what_is_held_out(self):
        for scene in self.scenes():
            for thing in scene.things:
                self.assertNotIn((thing.colour, thing.shape), vocabulary.HELD_PAIRS)
            if scene.kind == "count":
                self.assertNotIn((len(scene.things), scene.things[0].shape), vocabulary.HELD_COUNTS)
            for word in scene.lettering.lines if scene.lettering else ():
                self.assertNotIn(word, vocabulary.HELD_WORDS + vocabulary.HELD_NUMBERS)

    def test_held_out_scenes_all_use_it(self):
        for scene in scenes.evaluation_scenes(200, 8, True):
            pair = any((thing.colour, thing.shape) in vocabulary.HELD_PAIRS for thing in scene.things)
            count = scene.kind == "count" and (len(scene.things), scene.things[0].shape) in vocabulary.HELD_COUNTS
            words = scene.lettering and all(word in vocabulary.HELD_WORDS + vocabulary.HELD_NUMBERS for word in scene.lettering.lines)
            self.assertTrue(pair or count or words, scene)

    def test_everything_is_on_the_canvas_and_apart(self):
        for scene in self.scenes():
            width, height = scene.canvas
            for thing in scene.things:
                self.assertTrue(thing.radius <= thing.x <= width - thing.radius and thing.radius <= thing.y <= height - thing.radius, scene)
            for i, a in enumerate(scene.things):
                for b in scene.things[:i] if scene.kind != "nest" else ():
                    # No shape reaches further than 1.22 radii (a square's corner), and squares stand side by side.
                    self.assertGreater(max(abs(a.x - b.x), abs(a.y - b.y)), 0.9 * (a.radius + b.radius), scene)
            if scene.lettering:
                for line, word in enumerate(scene.lettering.lines):
                    x, y = scene.lettering.line_corner(scene.canvas, line)
                    cell = vocabulary.CELL[scene.lettering.size]
                    self.assertTrue(x >= 0 and x + len(word) * cell[0] <= width and y >= 0 and y + cell[1] <= height, scene)

    def test_the_same_seed_gives_the_same_scenes_and_captions(self):
        def all_of(seed):
            rng = random.Random(seed)
            made = [scenes.random_scene(rng) for _ in range(50)]
            return made, [captions.sentence(scene, rng) + captions.json_caption(scene, rng) for scene in made]
        self.assertEqual(all_of(9), all_of(9))
        self.assertNotEqual(all_of(9), all_of(10))

    def test_a_full_caption_names_everything(self):
        rng = random.Random(2)
        for scene in scenes.evaluation_scenes(300, 4, False):
            for caption in (captions.sentence(scene, rng), captions.json_caption(scene, rng)):
                for name in {scene.background[1]} | {thing.colour for thing in scene.things} | {thing.shape for thing in scene.things}:
                    self.assertIn(name, caption.lower())
                for word in scene.lettering.lines if scene.lettering else ():
                    self.assertIn(word, caption)
                if scene.lettering and scene.lettering.size != scene.lettering.default_size:
                    self.assertIn("small", caption.lower())


class Painting(unittest.TestCase):
    def test_distances_are_signed_and_scale(self):
        y, x = numpy.mgrid[-60:61, -60:61].astype(numpy.float64)
        for name, distance in shapes.DISTANCE.items():
            d = distance(numpy, x, y, 40.0)
            self.assertTrue((d < 0).any() and (d[0] > 0).all() and (d[-1] > 0).all() and (d[:, 0] > 0).all() and (d[:, -1] > 0).all(), name)
            numpy.testing.assert_allclose(distance(numpy, 2 * x, 2 * y, 80.0), 2 * d, atol=1e-9, err_msg=name)
            # A distance never changes faster than the place does.
            self.assertLessEqual(max(numpy.abs(numpy.diff(d, axis=0)).max(), numpy.abs(numpy.diff(d, axis=1)).max()), 1 + 1e-9, name)

    def test_shapes_differ_from_one_another(self):
        drawn = scoring.silhouettes(36.0, 50)
        for i in range(len(drawn)):
            for j in range(i):
                common = (drawn[i] * drawn[j]).sum()
                self.assertLess(common / (drawn[i].sum() + drawn[j].sum() - common), 0.93, (vocabulary.SHAPES[i], vocabulary.SHAPES[j]))

    def test_colours_are_the_named_ones(self):
        for prompt, scene in ASKED[:4]:
            pixels, thing = paint(scene), scene.things[0]
            numpy.testing.assert_allclose(pixels[2, 2] / 255, vocabulary.RGB[scene.background[1]], atol=0.5 / 255)
            numpy.testing.assert_allclose(pixels[round(thing.y), round(thing.x)] / 255, vocabulary.RGB[thing.colour], atol=0.5 / 255, err_msg=prompt)


if __name__ == "__main__":
    unittest.main()
