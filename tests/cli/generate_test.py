#!/usr/bin/env python3
"""What the program draws, and that the same request always gives the same bytes."""
import json
import shlex
import struct
import subprocess
import unittest

from program import DAMAGED, DEMO, FAST, GOLDEN, PROGRAM, TINY, ProgramTest, read_png, read_safetensors, write_safetensors

CAPTION = '{"high_level_description":"a  poster","compositional_deconstruction":{"background":"blue","elements":[]}}'


def request_of(blob):
    return json.loads(read_png(blob)[3]["octavo"])


class SameBytes(ProgramTest):
    """A5. Every precision, because each has its own products."""

    def test_twice_other_threads_and_a_batch(self):
        for precision in ("f32", "bf16", "w8a8"):
            with self.subTest(precision):
                arguments = ["--precision", precision, "--height", "48"]
                model = [word for word in FAST]
                del model[model.index("--height") : model.index("--height") + 2]
                first = self.draw("first.png", *arguments, "--seed", "5", model=model)
                self.assertEqual(self.draw("again.png", *arguments, "--seed", "5", model=model), first)
                for threads in ("1", "2", "3"):
                    self.assertEqual(self.draw("t.png", *arguments, "--seed", "5", "--threads", threads, model=model), first, f"{threads} threads")
                done = self.succeed("generate", *model, *arguments, "--prompt", "two red squares", "--seed", "5", "--batch", "3", "--output", "b.png")
                self.assertEqual(done.stdout.decode().split(), ["b-5.png", "b-6.png", "b-7.png"])
                pictures = [(self.folder / f"b-{seed}.png").read_bytes() for seed in (5, 6, 7)]
                self.assertEqual(pictures[0], first)
                self.assertEqual(pictures[1], self.draw("six.png", *arguments, "--seed", "6", model=model))
                self.assertEqual(pictures[2], self.draw("seven.png", *arguments, "--seed", "7", model=model))
                self.assertEqual(len(set(pictures)), 3, "different seeds, different pictures")

    def test_reference_bodies_do_not_depend_on_threads_either(self):
        first = self.draw("first.png", "--cpu-reference", "--threads", "1")
        self.assertEqual(self.draw("again.png", "--cpu-reference", "--threads", "2"), first)

    def test_standard_output_carries_the_same_file(self):
        first = self.draw("first.png")
        done = self.succeed("generate", *FAST, "--prompt", "two red squares", "--output", "-")
        self.assertEqual(done.stdout, first)

    def test_the_demo_model_is_the_default(self):
        size = ["--width", "64", "--height", "64", "--steps", "2"]
        done = self.succeed("generate", *size, "--prompt", "a red circle", "--output", "d.png")
        self.assertIn("demo model", done.stderr.decode())
        pixels = read_png((self.folder / "d.png").read_bytes())[:3]
        self.assertEqual(read_png(self.draw("n.png", *size, prompt="a red circle", model=["--model", DEMO]))[:3], pixels)
        self.succeed("generate", *size, "--prompt", "a red circle", "--output", "e.png", env={"OCTAVO_MODEL": str(DEMO)})
        self.assertEqual(read_png((self.folder / "e.png").read_bytes())[:3], pixels)


class Precedence(ProgramTest):
    def values(self, *arguments, model):
        return request_of(self.draw("x.png", *arguments, model=["--model", model]))

    def test_option_then_preset_then_model_then_default_20(self):
        small = ["--width", "32", "--height", "32"]
        of_model = self.values(*small, model=DEMO)
        self.assertEqual([of_model[key] for key in ("steps", "guidance", "mu", "std")], [12, 2.5, 0.7, 1.5])
        of_preset = self.values(*small, "--preset", "turbo-12", model=DEMO)
        self.assertEqual([of_preset[key] for key in ("steps", "guidance", "mu", "std")], [12, [7.0] * 11 + [3.0], 0.5, 1.75])
        of_option = self.values(*small, "--preset", "quality-48", "--steps", "4", "--mu", "-0.5", model=DEMO)
        self.assertEqual([of_option[key] for key in ("steps", "guidance", "mu", "std")], [4, [7.0, 3.0, 3.0, 3.0], -0.5, 1.5])
        of_default = self.values(*small, model=TINY)  # says nothing about itself
        self.assertEqual([of_default[key] for key in ("steps", "guidance", "mu", "std")], [20, [7.0] * 18 + [3.0] * 2, 0.0, 1.75])

    def test_a_size_that_nobody_gave_is_the_models_own(self):
        request = self.values("--steps", "1", "--guidance", "1", model=DEMO)
        self.assertEqual((request["width"], request["height"]), (256, 256))

    def test_guidance_is_in_time_order(self):
        request = self.values("--width", "32", "--height", "32", "--steps", "3", "--guidance", "7,5,3", model=TINY)
        self.assertEqual(request["guidance"], [7.0, 5.0, 3.0])


class Metadata(ProgramTest):
    def test_every_precision_can_be_chosen(self):
        pictures = {}
        for precision in ("f32", "bf16", "w8a8", "w8a8-dequant", "fp8", "nf4"):
            blob = self.draw("x.png", "--precision", precision)
            self.assertEqual(request_of(blob)["precision"], precision)
            pictures[precision] = read_png(blob)[2]
        self.assertEqual(len(set(pictures.values())), len(pictures), "two precisions gave the same picture")

    def test_a_picture_repeats_itself(self):
        prompt = "it's a \"red\" square 😀 \\ $HOME"
        first = self.draw("first.png", "--seed", "99", "--mu", "-0.25", "--std", "1.1", "--schedule-end", "official", "--precision", "w8a8", "--steps", "3",
                          "--guidance", "5,4,0.1", prompt=prompt, model=["--model", TINY, "--width", "32", "--height", "48"])
        width, height, _, texts = read_png(first)
        self.assertEqual((width, height), (32, 48))
        self.assertTrue(texts["Software"].startswith("octavo "))
        request = json.loads(texts["octavo"])
        self.assertEqual(request["prompt"], prompt)
        self.assertEqual((request["seed"], request["mu"], request["std"], request["guidance"]), (99, -0.25, 1.1, [5.0, 4.0, 0.1]))
        self.assertEqual(request["version"], json.loads(self.succeed("version", "--json").stdout)["version"])

        shown = self.succeed("inspect", "first.png").stdout.decode()
        self.assertIn(prompt, shown)
        command = next(line for line in shown.splitlines() if line.startswith("again: "))[len("again: ") :]
        words = shlex.split(command)
        self.assertEqual(words[:2], ["octavo", "generate"])
        self.succeed(*words[1:], "--output", "second.png")
        self.assertEqual((self.folder / "second.png").read_bytes(), first)

    def test_inspect_prints_the_request_as_json(self):
        self.draw("x.png", "--seed", "3")
        shown = json.loads(self.succeed("inspect", "--json", "x.png").stdout)
        self.assertEqual(shown["request"], request_of((self.folder / "x.png").read_bytes()))
        self.assertEqual((shown["width"], shown["height"]), (32, 32))

    def test_json_result(self):
        done = self.succeed("generate", *FAST, "--prompt", "x", "--output", "x.png", "--batch", "2", "--seed", "8", "--json")
        result = json.loads(done.stdout)
        self.assertEqual([picture["path"] for picture in result["pictures"]], ["x-8.png", "x-9.png"])
        self.assertEqual([picture["request"]["seed"] for picture in result["pictures"]], [8, 9])
        self.assertGreater(result["seconds"], 0)


class Prompts(ProgramTest):
    def tokens(self, *arguments, **keywords):
        self.succeed("generate", *FAST, *arguments, "--output", "t.png", "--dump", "t.safetensors", **keywords)
        dtype, shape, content = read_safetensors(self.folder / "t.safetensors")[0]["tokens"]
        self.assertEqual(dtype, "I32")
        return list(struct.unpack(f"<{shape[0]}i", content))

    def test_golden_prompts_through_option_file_and_standard_input(self):
        # empty, emoji, CJK, accents, typographic quotes, JSON: tokens.I of the reference
        for folder in (GOLDEN / "tiny-hd64", GOLDEN / "tiny-hd256"):
            prompts = json.loads((folder / "expected.json").read_text())["prompts"]
            expected, _ = read_safetensors(folder / "expected.safetensors")
            for i, prompt in enumerate(prompts):
                dtype, shape, content = expected[f"tokens.{i}"]
                wanted = list(struct.unpack(f"<{shape[0]}i", content))
                model = ["--model", folder]
                arguments = [word for word in FAST if word not in ("--model", str(TINY))]
                for way, words, stdin in (("option", ["--prompt", prompt], b""), ("file", ["--prompt-file", "p"], b""), ("standard input", ["--prompt-file", "-"], prompt.encode())):
                    (self.folder / "p").write_bytes(prompt.encode())
                    self.succeed("generate", *model, *arguments, *words, "--output", "t.png", "--dump", "t.safetensors", stdin=stdin)
                    dtype, shape, content = read_safetensors(self.folder / "t.safetensors")[0]["tokens"]
                    self.assertEqual(list(struct.unpack(f"<{shape[0]}i", content)), wanted, f"{folder.name} prompt {i} by {way}")

    def test_every_script_works(self):
        for prompt in ("", "😀👩‍👩‍👧", "שלום עולם", "مرحبا بالعالم", "你好，世界", "こんにちは", "e\u0301", "\u202eabc", "a\nb\tc", "-", "--steps", "[a,b]", "%s%n{}"):
            with self.subTest(prompt):
                self.assertGreaterEqual(len(self.tokens(f"--prompt={prompt}")), 8 if prompt else 1)

    def test_a_prompt_that_begins_with_a_dash(self):
        self.assertEqual(self.tokens("--prompt", "-5 degrees"), self.tokens("--prompt=-5 degrees"))

    def test_json_is_passed_byte_for_byte(self):
        spaced = CAPTION.replace(":", " : ") + "\n"
        (self.folder / "c.json").write_text(spaced)
        compact = self.tokens("--prompt", CAPTION)
        loose = self.tokens("--prompt-file", "c.json")
        self.assertNotEqual(compact, loose)
        self.assertEqual(loose, self.tokens("--prompt", spaced))

    def test_the_newline_that_editors_add_is_not_part_of_plain_text(self):
        wanted = self.tokens("--prompt", "a cat")
        for text in (b"a cat", b"a cat\n", b"a cat\r\n"):
            self.assertEqual(self.tokens("--prompt-file", "-", stdin=text), wanted)
        self.assertNotEqual(self.tokens("--prompt-file", "-", stdin=b"a cat\n\n"), wanted)

    def test_a_byte_order_mark_is_not_part_of_a_file(self):
        mark = b"\xef\xbb\xbf"
        for text in ("a cat", CAPTION + "\n", ""):  # the newline of a caption stays only if it is seen to be JSON
            (self.folder / "p").write_bytes(mark + text.encode())
            self.assertEqual(self.tokens("--prompt-file", "p"), self.tokens("--prompt", text))
            self.assertEqual(self.tokens("--prompt-file", "-", stdin=mark + text.encode()), self.tokens("--prompt", text))
        self.assertNotEqual(self.tokens("--prompt", "\ufeffa cat"), self.tokens("--prompt", "a cat"), "an option's text is left alone")


class Streams(ProgramTest):
    def test_result_on_stdout_everything_else_on_stderr(self):
        done = self.succeed("generate", *FAST, "--prompt", "x", "--output", "x.png")
        self.assertEqual(done.stdout, b"x.png\n")
        text = done.stderr.decode()
        for wanted in ("denoise 1/2", "denoise 2/2", "s/step", "left", "note: "):
            self.assertIn(wanted, text)
        self.assertNotIn("\r", text, "plain lines off a terminal")

    def test_quiet_means_silent(self):
        self.assertEqual(self.succeed("generate", *FAST, "--prompt", "x", "--output", "x.png", "--quiet").stderr, b"")

    def test_notes_come_once(self):
        text = self.succeed("generate", *FAST, "--prompt", "x", "--output", "x.png").stderr.decode()
        notes = [line for line in text.splitlines() if line.startswith("note: ")]
        self.assertEqual(len(notes), 2, text)
        self.assertIn("32x32", notes[0])
        self.assertIn("plain text", notes[1])

    def test_findings_about_a_caption_are_notes(self):
        text = self.succeed("generate", *FAST, "--prompt", "{\"a\":1}", "--output", "x.png").stderr.decode()
        self.assertRegex(text, r"note: caption: .*a")
        text = self.succeed("generate", *FAST, "--prompt", CAPTION, "--output", "x.png").stderr.decode()
        self.assertNotIn("caption:", text)
        self.assertNotIn("plain text", text)

    def test_the_default_name(self):
        done = self.succeed("generate", *FAST, "--prompt", "x", "--seed", "12")
        self.assertEqual(done.stdout, b"octavo-12.png\n")
        self.assertTrue((self.folder / "octavo-12.png").exists())

    def test_an_old_picture_is_replaced_and_a_link_followed(self):
        first = self.draw("x.png", "--seed", "1")
        (self.folder / "link.png").symlink_to("x.png")
        second = self.draw("link.png", "--seed", "2")
        self.assertTrue((self.folder / "link.png").is_symlink())
        self.assertEqual((self.folder / "x.png").read_bytes(), second)
        self.assertNotEqual(first, second)

    def test_closed_streams_are_not_files(self):
        """A number that the caller closed must not become a file's: progress would be written into it."""
        def call(streams, *arguments):
            return subprocess.run(["sh", "-c", f'exec "$0" "$@" {streams}', PROGRAM, *map(str, arguments)], cwd=self.folder, capture_output=True, timeout=600, check=False)

        picture, weights = self.folder / "x.png", self.folder / "q.safetensors"
        for streams in ("2>&-", "2>/dev/full", "<&- 2>&-", "<&- >&- 2>&-"):
            done = call(streams, "generate", *FAST, "--prompt", "x", "--output", picture, "--dump", "d.safetensors")
            self.assertEqual(done.returncode, DAMAGED if ">&- 2" in streams else 0)
            self.assertEqual(read_png(picture.read_bytes())[:2], (32, 32))
            done = call(streams, "quantize", TINY / "transformer", weights)
            self.assertEqual(done.returncode, DAMAGED if ">&- 2" in streams else 0)
            self.succeed("inspect", weights)
            picture.unlink()
            weights.unlink()
        self.assertIn(b"standard input", call("<&-", "generate", *FAST, "--prompt-file", "-").stderr)
        self.assertIn(b"standard output", call(">&-", "inspect", TINY).stderr)

    def test_a_full_device_is_not_success(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "version"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"standard output", done.stderr)


class Dump(ProgramTest):
    def test_names_shapes_and_types(self):
        self.succeed("generate", *FAST[:-2], "--guidance", "1", "--prompt", "x", "--output", "x.png", "--dump", "d.safetensors")
        tensors, metadata = read_safetensors(self.folder / "d.safetensors")
        shapes = {name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()}
        count = shapes["tokens"][1][0]
        self.assertEqual(shapes, {
            "tokens": ("I32", [count]), "text_features": ("F32", [count, 416]), "sigmas": ("F32", [3]), "latents_per_step": ("F32", [2, 1, 4, 32]),
            "velocity_cond": ("F32", [2, 1, 4, 32]), "velocity_uncond": ("F32", [2, 1, 4, 32]), "image": ("F32", [32, 32, 3])})
        self.assertNotEqual(tensors["velocity_uncond"][2], tensors["velocity_cond"][2], "computed although guidance 1 does not need it")
        self.assertEqual(json.loads(metadata["octavo"])["prompt"], "x")
        unit = struct.unpack("<3072f", tensors["image"][2])
        pixels = read_png((self.folder / "x.png").read_bytes())[2]
        for value, byte in zip(unit, pixels):
            self.assertTrue(0 <= value <= 1)
            self.assertLessEqual(abs(value * 255 - byte), 0.5001)

    def test_a_batch_is_the_second_axis(self):
        self.succeed("generate", *FAST, "--prompt", "x", "--seed", "4", "--batch", "2", "--output", "x.png", "--dump", "b.safetensors")
        self.succeed("generate", *FAST, "--prompt", "x", "--seed", "5", "--output", "y.png", "--dump", "s.safetensors")
        batch, _ = read_safetensors(self.folder / "b.safetensors")
        single, _ = read_safetensors(self.folder / "s.safetensors")
        for name in ("latents_per_step", "velocity_cond", "velocity_uncond"):
            self.assertEqual(batch[name][1], [2, 2, 4, 32])
            picture = 4 * 32 * 4
            for step in range(2):
                at = (step * 2 + 1) * picture
                self.assertEqual(batch[name][2][at : at + picture], single[name][2][step * picture : (step + 1) * picture], f"{name} step {step}")
        self.assertEqual(batch["image"][1], [2, 32, 32, 3])

    def test_the_picture_does_not_depend_on_the_dump(self):
        plain = self.draw("x.png", "--guidance", "1", model=FAST[:-2])
        self.assertEqual(self.draw("y.png", "--guidance", "1", "--dump", "d.safetensors", model=FAST[:-2]), plain)


class Noise(ProgramTest):
    def test_three_shapes_and_one_picture_each(self):
        blob = struct.pack("<256f", *[((i * 7919) % 1000) / 300 - 1.6 for i in range(256)])
        half = len(blob) // 2
        write_safetensors(self.folder / "n.safetensors", {"two": ("F32", [2, 4, 32], blob), "first": ("F32", [4, 32], blob[:half]), "second": ("F32", [1, 4, 32], blob[half:])})
        pixels = {}
        for name in ("first", "second"):
            pixels[name] = read_png(self.draw(f"{name}.png", "--noise", f"n.safetensors:{name}"))[2]
        self.assertNotEqual(pixels["first"], pixels["second"])
        self.assertEqual(read_png(self.draw("s.png", "--noise", "n.safetensors:first", "--seed", "77"))[2], pixels["first"], "the seed draws nothing")
        self.succeed("generate", *FAST, "--prompt", "two red squares", "--batch", "2", "--noise", "n.safetensors:two", "--output", "b.png")
        self.assertEqual(read_png((self.folder / "b-0.png").read_bytes())[2], pixels["first"])
        self.assertEqual(read_png((self.folder / "b-1.png").read_bytes())[2], pixels["second"])


if __name__ == "__main__":
    unittest.main()
