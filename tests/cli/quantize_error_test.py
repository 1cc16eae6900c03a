#!/usr/bin/env python3
"""The laws that quantising must keep on the demo model, G = 64: tools/quantize_error.py measures, this judges."""
import sys
import tempfile
import unittest

from program import DEMO, PROGRAM, SOURCE

sys.path.insert(0, str(SOURCE / "tools"))
from quantize_error import Bench  # noqa: E402


class DemoModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="octavo-error-") as folder:
            # Not smaller: at 64x64 the velocity is one draw over 16 tokens, and there the planted outlier costs 1.7 times the clean error instead of 3.5.
            cls.rows = Bench(PROGRAM, folder, size=128).table(DEMO, 64)

    def show(self, kind):
        return {scheme: {key: round(row[key], 5) for key in ("layers_rms", "layers_worst", "velocity")} for scheme, row in self.rows[kind].items()}

    def test_a_rotation_does_not_make_the_layers_worse(self):
        """What trained layers read has outliers (w2 most of all), so over all layers the rotation must gain, and in the worst. A single layer whose rows
        are like Gaussian ones has nothing to gain, and its two roundings differ by chance: it may be half as bad again."""
        plain, convrot = self.rows["clean"]["plain"], self.rows["clean"]["convrot"]
        self.assertLessEqual(convrot["layers_rms"], plain["layers_rms"], self.show("clean"))
        self.assertLessEqual(convrot["layers_worst"], plain["layers_worst"], self.show("clean"))
        for layer, error in convrot["layers"].items():
            self.assertLessEqual(error, 1.5 * plain["layers"][layer], layer)

    def test_nor_the_velocity_after_guidance(self):
        """One draw of rounding errors instead of a mean over many: measured 0.79, 1.1 allowed."""
        self.assertLessEqual(self.rows["clean"]["convrot"]["velocity"], 1.1 * self.rows["clean"]["plain"]["velocity"], self.show("clean"))

    def test_a_planted_outlier_hurts_and_is_brought_back_under_twice_the_clean_error(self):
        clean, planted = self.rows["clean"]["plain"], self.rows["outlier"]
        for error in ("layers_rms", "velocity"):
            self.assertGreaterEqual(planted["plain"][error], 2 * clean[error], "the outlier must hurt, or the test shows nothing")
            best = min(planted["convrot"][error], planted["smooth"][error])
            self.assertLess(best, 2 * clean[error], f"{error}: {self.show('outlier')}")
            self.assertLess(planted["both"][error], 2 * clean[error], f"{error}: {self.show('outlier')}")


if __name__ == "__main__":
    unittest.main()
