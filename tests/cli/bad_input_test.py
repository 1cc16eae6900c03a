#!/usr/bin/env python3
"""Every kind of bad input: one clear line with the values, the right exit code, nothing written."""
import json
import struct
import unittest

from program import DAMAGED, DEMO, FAST, INVALID, NO_MEMORY, TINY, UNSUPPORTED, ProgramTest, edit_json, listing, read_safetensors, write_safetensors

DIT = "transformer/diffusion_pytorch_model.safetensors"


class Requests(ProgramTest):
    """What is wrong with the words of the command line."""

    def bad(self, *arguments, contains, code=INVALID, model=("--model", str(TINY)), **keywords):
        return self.refuse(code, "generate", *model, "--prompt", "x", "--output", self.folder / "x.png", *arguments, contains=contains, **keywords)

    def test_sizes(self):
        self.bad("--width", "1000", contains=["--width 1000", "multiple of 16", "992, 1008"])
        self.bad("--height", "1000", contains=["--height 1000", "992, 1008"])
        self.bad("--width", "0", contains=["--width 0", "at least 16"])
        self.bad("--height", "-64", contains=["--height -64", "at least 16"])
        self.bad("--width", "2064", contains=["--width 2064", "2048", "--force"])
        self.bad("--width", "2050", "--force", contains=["2048, 2064"])
        self.bad("--width", "8", contains=["nearest: 16"])
        self.bad("--width", "99999999999", contains=["--width 99999999999", "out of range"])

    def test_numbers(self):
        for option in ("--width", "--height", "--steps", "--batch", "--threads"):
            for word in ("abc", "1.5", "0x10", "1e3", "", " 4", "4 "):
                self.bad(option, word, contains=[option, f"'{word}'", "whole number"])
        for option in ("--mu", "--std", "--guidance"):
            self.bad(option, "abc", contains=[option, "'abc'", "number"])
        self.bad("--mu", "nan", contains=["--mu nan", "finite"])
        self.bad("--mu", "-inf", contains=["--mu -inf", "finite"])
        self.bad("--std", "inf", contains=["--std inf", "finite"])
        self.bad("--std", "0", contains=["--std 0", "greater than 0"])
        self.bad("--mu", "1e999", contains=["--mu 1e999", "out of range"])
        self.bad("--guidance", "nan", contains=["--guidance nan", "finite"])
        self.bad("--guidance", "3,inf,2", "--steps", "3", contains=["--guidance inf", "finite"])
        self.bad("--seed", "-1", contains=["--seed '-1'"])
        self.bad("--seed", "18446744073709551616", contains=["--seed 18446744073709551616", "out of range"])
        self.bad("--seed", "18446744073709551615", "--batch", "2", contains=["18446744073709551615", "--batch 2"])

    def test_steps_batch_threads(self):
        self.bad("--steps", "0", contains=["--steps 0", "at least 1"])
        self.bad("--steps", "-3", contains=["--steps -3", "at least 1"])
        self.bad("--batch", "0", contains=["--batch 0", "at least 1"])
        self.bad("--steps", "2147483647", contains=["--steps 2147483647", "at most 10000"], timeout=30)
        self.bad("--batch", "2147483647", contains=["--batch 2147483647", "at most 10000"], timeout=30)
        self.bad("--threads", "0", contains=["--threads 0", "at least 1"])
        self.assertNotIn("or 0", self.bad("--threads", "100000", contains=["--threads 100000", "between 1 and 1024", "leave it out"]))

    def test_guidance_list_of_the_wrong_length(self):
        self.bad("--guidance", "7,5,3", "--steps", "4", contains=["3 values", "4 steps"])
        self.bad("--guidance", "7,5", "--preset", "turbo-12", contains=["2 values", "12 steps"])
        self.bad("--guidance", "7,,3", "--steps", "3", contains=["--guidance '7,,3'", "no number"])
        self.bad("--guidance", ",", contains=["--guidance ','", "no number before the first comma"])
        self.bad("--guidance", "7,3,", "--steps", "3", contains=["--guidance '7,3,'", "no number"])

    def test_unknown_options_and_values(self):
        self.bad("--colour", "red", contains=["--colour", "generate --help"])
        self.refuse(INVALID, "generate", "--promt", "x", contains=["generate: '--promt' is not known", "nearest: '--prompt'"])
        self.refuse(INVALID, "generate", "--promt=x", "--seed", "1", contains=["generate: '--promt' is not known", "nearest: '--prompt'"])
        self.refuse(INVALID, "caption", "check", "--jsn", "f", contains=["caption check: '--jsn' is not known", "nearest: '--json'"])
        self.bad("--preset", "fast", contains=["'fast'", "quality-48, default-20, turbo-12"])
        self.bad("--precision", "int4", contains=["'int4'", "f32", "bf16", "w8a8"])
        self.bad("--device", "tpu", contains=["'tpu'", "cpu", "cuda"])
        self.bad("--device", "cuda:x", contains=["'cuda:x'"])
        self.bad("--schedule-end", "one", contains=["'one'", "zero, official"])
        self.bad("--steps", contains=["--steps"])
        self.bad("extra", contains=["extra"])
        self.bad("--steps", "2", "--steps", "3", contains=["--steps", "more than once"])
        self.bad("--json=yes", contains=["yes"])
        self.refuse(INVALID, "draw", contains=["'draw'", "generate, inspect"])
        self.refuse(INVALID, "caption", "mend", contains=["'mend'", "check, compact"])
        self.refuse(INVALID, "caption", contains=["octavo caption --help"])
        self.refuse(INVALID, "--colour", contains=["--colour"])
        self.refuse(INVALID, "inspect", contains=["octavo inspect --help"])
        self.refuse(INVALID, "inspect", DEMO, "--precision", "int4", contains=["'int4'"])
        self.refuse(INVALID, "caption", "check", contains=["caption check --help"])

    def test_messages_are_in_our_words(self):
        """The parsing library's own are about its insides: "1 required FILE|- missing", "Could not convert"."""
        self.bad("--steps", contains=["--steps", "needs a value"])
        self.refuse(INVALID, "inspect", contains=["inspect: PATH is missing"])
        self.refuse(INVALID, "caption", "check", contains=["caption check: FILE|- is missing"])
        self.refuse(INVALID, "caption", contains=["caption: a command is missing; known: check, compact"])
        self.refuse(INVALID, "quantize", DEMO, contains=["quantize: OUT is missing"])
        self.refuse(INVALID, "quantize", DEMO, "out", "--group", "many", contains=["quantize: --group 'many'", "not a number"])

    def test_a_gpu_that_is_not_there_or_not_used_yet(self):
        self.bad("--device", "cuda:99", code=UNSUPPORTED, contains=["cuda:99"])

    def test_no_prompt_or_two(self):
        self.refuse(INVALID, "generate", contains=["prompt is missing", "--prompt"])
        (self.folder / "p.txt").write_text("a")
        self.bad("--prompt-file", "p.txt", contains=["--prompt", "--prompt-file", "exclude"])
        self.refuse(INVALID, "generate", "--prompt-file", "none.txt", contains=["--prompt-file", "none.txt"])
        self.refuse(INVALID, "generate", "--prompt-file", self.folder, contains=["--prompt-file", "not a regular file"])

    def test_bytes_that_are_no_text(self):
        for name, blob, where in (("nul", b"ab\0cd", "byte 2"), ("latin1", b"caf\xe9 au lait", "byte 3"), ("cut", "snow ☃".encode()[:-1], "byte 5")):
            path = self.folder / name
            path.write_bytes(blob)
            self.refuse(INVALID, "generate", *FAST, "--prompt-file", path, "--output", self.folder / "x.png", contains=[where])
            self.refuse(INVALID, "generate", *FAST, "--prompt-file", "-", "--output", self.folder / "x.png", stdin=blob, contains=[where])
        self.refuse(INVALID, "generate", *FAST, "--prompt", b"a\xffb", "--output", self.folder / "x.png", contains=["byte 1"])

    def test_too_many_tokens(self):
        # The demo tokenizer splits digits one by one; the chat template adds a fixed number of tokens.
        self.succeed("generate", *FAST, "--prompt", "", "--output", "empty.png", "--dump", "empty.safetensors")
        template = read_safetensors(self.folder / "empty.safetensors")[0]["tokens"][1][0]
        longest = 2048 - template
        self.succeed("generate", *FAST, "--prompt", "7" * longest, "--output", "x.png", "--dump", "long.safetensors")
        self.assertEqual(read_safetensors(self.folder / "long.safetensors")[0]["tokens"][1], [2048])
        (self.folder / "x.png").unlink()
        self.refuse(INVALID, "generate", *FAST, "--prompt", "7" * (longest + 1), "--output", "x.png", contains=["2049", "2048"])

    def test_output_paths_are_tried_before_the_work(self):
        def bad(output, *more, contains):
            self.refuse(INVALID, "generate", *FAST, "--prompt", "x", "--output", output, *more, contains=["--output", *contains], timeout=20)

        bad("no/such/folder/x.png", contains=["no/such/folder/x.png"])
        bad(self.folder, contains=["folder"])
        bad("/proc/x.png", contains=["/proc/x.png"])
        bad("/dev/null", contains=["/dev/null", "regular file"])
        bad("", contains=["empty"])
        for name in ("x.jpg", "x.safetensors", "x.gguf", "x.png.txt"):
            bad(name, contains=["PNG", ".png"])
        bad("-", "--batch", "2", contains=["--batch is 2"])
        bad("-", "--json", contains=["--json"])
        self.refuse(INVALID, "generate", *FAST, "--prompt", "x", "--output", "x.png", "--dump", "-", contains=["--dump -", "file name"])
        (self.folder / "loop.png").symlink_to("loop.png")
        bad("loop.png", contains=["loop.png", "symbolic links"])
        self.refuse(INVALID, "generate", *FAST, "--prompt", "x", "--output", "x.png", "--dump", "loop.png", contains=["--dump", "loop.png", "symbolic links"])
        self.refuse(INVALID, "generate", *FAST, "--prompt", "x", "--output", "x.png", "--dump", "no/folder/d.safetensors", contains=["--dump", "no/folder"])

    def test_what_is_read_and_what_is_written_are_different_files(self):
        def bad(*more, contains):
            self.refuse(INVALID, "generate", *FAST, *more, contains=["same file", *contains], timeout=20)

        bad("--prompt", "x", "--output", "x.png", "--dump", "x.png", contains=["--dump", "--output"])
        bad("--prompt", "x", "--output", "x.png", "--dump", "./x.png", contains=["--dump", "--output"])
        bad("--prompt", "x", "--output", "x.png", "--seed", "4", "--batch", "3", "--dump", self.folder / "x-5.png", contains=["x-5.png", "--dump", "--output"])
        write_safetensors(self.folder / "noise.safetensors", {"noise": ("F32", [4, 32], bytes(512))})
        bad("--prompt", "x", "--output", "x.png", "--noise", "noise.safetensors:noise", "--dump", "noise.safetensors", contains=["--noise", "--dump"])
        (self.folder / "prompt").write_text("a")
        (self.folder / "link").symlink_to("prompt")
        bad("--prompt-file", "prompt", "--output", "link", contains=["--prompt-file", "--output"])
        bad("--prompt-file", "link", "--output", "x.png", "--dump", "prompt", contains=["--prompt-file", "--dump"])
        style, other = self.folder / "style.safetensors", self.folder / "other"
        for path in (style, other):
            write_safetensors(path, {"noise": ("F32", [4, 32], bytes(512))})
        (self.folder / "style.png").symlink_to("style.safetensors")
        loras = ["--prompt", "x", "--lora", "other:0.5", "--lora", f"{style}:0.5"]
        bad(*loras, "--output", "style.png", contains=["--lora", "--output"])
        bad(*loras, "--output", "other", contains=["--lora", "--output"])
        bad(*loras, "--output", "x.png", "--dump", "style.safetensors", contains=["--lora", "--dump"])

    def test_the_model_is_not_written_over(self):
        model = self.copy_model()
        weights = model / "vae" / "diffusion_pytorch_model.safetensors"
        elsewhere = self.folder / "blob"
        weights.rename(elsewhere)
        weights.symlink_to(elsewhere)  # as download caches and quantize lay them out
        arguments = [word for word in FAST if word not in ("--model", str(TINY))]
        before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

        def bad(option, path, contains):
            more = () if option == "--output" else ("--output", "x.png")
            self.refuse(INVALID, "generate", *arguments, "--model", model, "--prompt", "x", option, path, *more, contains=[option, "model's own", contains])
            self.assertEqual({path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}, before)

        bad("--dump", weights, "vae")
        bad("--dump", elsewhere, "vae")
        bad("--output", elsewhere, "vae")
        bad("--dump", "model/model_index.json", "model_index.json")
        bad("--dump", "model/transformer/new.safetensors", "transformer")
        bad("--output", "model/tokenizer/x.png", "tokenizer")
        (self.folder / "link.png").symlink_to(model / "vae" / "config.json")
        before[self.folder / "link.png"] = (self.folder / "link.png").read_bytes()
        bad("--output", "link.png", "vae")
        for _ in range(2):  # beside the components there is room, the second time too
            self.succeed("generate", *arguments, "--model", model, "--prompt", "x", "--output", model / "x.png", "--dump", model / "d.safetensors")

    def test_long_names(self):
        """What the disk allows as a name works, although the temporary beside it would be longer; what it does not is found before the work."""
        for length in (230, 245, 251, 255):
            name = "n" * (length - 4) + ".png"
            self.succeed("generate", *FAST, "--prompt", "x", "--output", name, "--dump", "d" * length)
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["d" * length, name])
            (self.folder / name).unlink()
            (self.folder / ("d" * length)).unlink()
        two_bytes = "\u00e9" * 125 + ".png"
        self.succeed("generate", *FAST, "--prompt", "x", "--output", two_bytes)
        (self.folder / two_bytes).unlink()
        for name, more in (("n" * 252 + ".png", ()), ("n" * 249 + ".png", ("--batch", "2", "--seed", "10")), ("f/" * 2100 + "x.png", ())):
            self.refuse(INVALID, "generate", *FAST, "--prompt", "x", "--output", name, *more, contains=["--output", "too long"], timeout=20)

    def test_noise(self):
        def noise(shape, dtype="F32", value=0.0):
            count = 1
            for extent in shape:
                count *= extent
            width = {"F32": 4, "BF16": 2, "I32": 4}[dtype]
            content = struct.pack("<f", value) * count if dtype == "F32" else bytes(width * count)
            write_safetensors(self.folder / "noise.safetensors", {"noise": (dtype, list(shape), content), "other": ("F32", [1], bytes(4))})

        right = (2 * 2, 32)  # 32 x 32 pixels, 8 latent channels in 2 x 2 patches
        for shape in ((5, 32), (4, 31), (2, 4, 32), (1, 1, 4, 32), (128,)):
            noise(shape)
            self.bad(*FAST[2:], "--noise", "noise.safetensors:noise", contains=[str(list(shape)), "[4, 32]"])
        noise(right, "BF16")
        self.bad(*FAST[2:], "--noise", "noise.safetensors:noise", contains=["BF16", "F32"])
        noise(right, value=float("nan"))
        self.bad(*FAST[2:], "--noise", "noise.safetensors:noise", contains=["not finite"])
        noise(right)
        self.bad(*FAST[2:], "--noise", "noise.safetensors:latents", contains=["noise.safetensors:latents", "no such tensor", "other"])
        self.bad(*FAST[2:], "--noise", "noise.safetensors", contains=["FILE.safetensors:TENSOR"])
        self.bad(*FAST[2:], "--noise", "none.safetensors:noise", contains=["none.safetensors"])

    def test_not_enough_memory(self):
        line = self.bad("--width", "1048576", "--height", "1048576", "--force", code=NO_MEMORY, contains=["not enough memory", "wanted", "available", "--width"], timeout=60)
        self.assertRegex(line, r"\d+\.\d GiB wanted .*decoder")


class Models(ProgramTest):
    """What is wrong with the folder."""

    def bad(self, code, model, contains, **keywords):
        return self.refuse(code, "generate", *FAST, "--model", model, "--prompt", "x", "--output", self.folder / "x.png", contains=contains, **keywords)

    # FAST names the tiny model already; the option must then be given once.
    def refuse(self, code, *arguments, **keywords):
        arguments = list(arguments)
        first = arguments.index("--model")
        if "--model" in arguments[first + 1 :]:
            del arguments[first : first + 2]
        return super().refuse(code, *arguments, **keywords)

    def test_missing_folder_and_components(self):
        self.bad(INVALID, "no-such-model", ["no-such-model", "does not exist"])
        self.bad(INVALID, TINY / "model_index.json", ["is a file"])
        self.bad(INVALID, self.folder, ["no model_index.json"])
        for component in ("tokenizer", "text_encoder", "transformer", "unconditional_transformer", "vae"):
            model = self.copy_model()
            (model / component).rename(self.folder / "moved")
            self.bad(INVALID, model, [f"'{component}'", "missing"])
            (self.folder / "moved").rename(model / component)
            for name in [path for path in (model / component).iterdir() if path.suffix in (".safetensors", ".json") and path.stem in ("config", "tokenizer")]:
                name.rename(self.folder / "moved")
                self.bad(INVALID, model, [component])
                (self.folder / "moved").rename(name)
            self.drop(model)

    def drop(self, model):
        import shutil

        shutil.rmtree(model)

    def test_weights_missing(self):
        model = self.copy_model()
        (model / DIT).unlink()
        self.bad(INVALID, model, ["transformer", "diffusion_pytorch_model"])

    def test_another_family(self):
        model = self.copy_model()
        edit_json(model / "model_index.json", lambda index: index.update(_class_name="StableDiffusionPipeline"))
        self.bad(INVALID, model, ["StableDiffusionPipeline", "Ideogram4Pipeline"])

    def test_defaults_of_the_model_that_no_picture_can_have(self):
        """The model is at fault, not an option that nobody gave; with the option it draws."""
        model = self.copy_model()
        arguments = ["--model", model, "--prompt", "x", "--output", self.folder / "x.png"]
        cases = (("width", 17, "multiple of 16", "32"), ("height", 40000, "2048", "32"), ("std", 0, "greater than 0", "1"), ("steps", 10001, "10000", "1"),
                 ("guidance", [7, 1e300], "not a finite number", "2"))
        for key, value, problem, good in cases:
            defaults = {"width": 32, "height": 32, "steps": 2, "guidance": 2, "mu": 0, "std": 1.5, key: value}
            edit_json(model / "model_index.json", lambda index: index.update(generation_defaults=defaults))
            blame = ["model_index.json", f"'generation_defaults': {key} ", problem, f"draw with --{key}"]
            listed = self.succeed("inspect", model).stdout.decode()  # says it, but lists what is there
            for text in (ProgramTest.refuse(self, DAMAGED, "generate", *arguments, contains=blame), listed):
                for part in blame:
                    self.assertIn(part, text)
                self.assertNotIn("generate:", text)
                self.assertNotIn("--force", text)
            self.succeed("generate", *arguments, f"--{key}", good)
            (self.folder / "x.png").unlink()

    def test_another_family_of_a_component(self):
        model = self.copy_model()
        edit_json(model / "transformer" / "config.json", lambda config: config.update(_class_name="FluxTransformer2DModel"))
        self.bad(INVALID, model, ["FluxTransformer2DModel"])

    def test_configurations_that_disagree_with_tensors(self):
        for component, change, name in (
            ("transformer", {"intermediate_size": 208}, "feed_forward"),
            ("transformer", {"num_layers": 3}, "layers.2"),
            ("unconditional_transformer", {"adaln_dim": 24}, "adaln"),
            ("vae", {"block_out_channels": [16, 32, 32, 64]}, "vae"),
        ):
            model = self.copy_model()
            edit_json(model / component / "config.json", lambda config: config.update(change))
            self.bad(DAMAGED, model, [component, name])
            self.drop(model)

    def test_configurations_that_disagree_with_each_other(self):
        model = self.copy_model()
        edit_json(model / "model_index.json", lambda index: index.update(text_encoder_taps=[0, 1]))
        self.bad(DAMAGED, model, ["416", "64", "taps"])
        edit_json(model / "model_index.json", lambda index: index.update(text_encoder_taps=[0, 99]))
        self.bad(DAMAGED, model, ["layer 99", "36 layers"])
        edit_json(model / "model_index.json", lambda index: index.pop("text_encoder_taps"))
        edit_json(model / "unconditional_transformer" / "config.json", lambda config: config.update(in_channels=64))
        self.bad(DAMAGED, model, ["unconditional_transformer", "64", "32"])

    def test_files_that_are_not_json(self):
        for name in ("model_index.json", "transformer/config.json", "text_encoder/config.json", "vae/config.json", "tokenizer/tokenizer.json"):
            for text in ("<!DOCTYPE html><html>404</html>", "", "{", '{"a": 1} x', "[" * 100000):
                model = self.copy_model()
                (model / name).write_text(text)
                self.bad(DAMAGED, model, [name.split("/")[-1]])
                self.drop(model)

    def test_weight_files_that_are_something_else(self):
        good = (TINY / DIT).read_bytes()
        (length,) = struct.unpack("<Q", good[:8])
        header = json.loads(good[8 : 8 + length])

        def with_header(change):
            edited = json.loads(json.dumps(header))
            change(edited)
            text = json.dumps(edited).encode()
            return struct.pack("<Q", len(text)) + text + good[8 + length :]

        names = [name for name in header if name != "__metadata__"]

        def overlap(edited):
            edited[names[1]]["data_offsets"] = edited[names[0]]["data_offsets"]

        def past_the_end(edited):
            edited[names[0]]["data_offsets"] = [len(good), len(good) + 10]

        def wrong_bytes(edited):
            edited[names[0]]["shape"][0] += 1

        cases = {
            "cut in the data": (good[: len(good) // 2], []),
            "cut in the header": (good[:100], []),
            "seven bytes": (good[:7], []),
            "empty": (b"", ["empty"]),
            "oversized header": (struct.pack("<Q", 1 << 40) + good[8:], []),
            "header of 2^64 - 1": (b"\xff" * 8 + good[8:], []),
            "header is no JSON": (good[:8] + b"?" * length + good[8 + length :], ["JSON"]),
            "overlap": (with_header(overlap), [names[1]]),
            "past the end": (with_header(past_the_end), [names[0]]),
            "shape and bytes disagree": (with_header(wrong_bytes), [names[0]]),
            "HTML": (b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", ["HTML"]),
            "LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n", ["LFS"]),
            "zip": (b"PK\x03\x04" + bytes(200), ["zip"]),
        }
        for what, (blob, contains) in cases.items():
            with self.subTest(what):
                model = self.copy_model()
                (model / DIT).write_bytes(blob)
                self.bad(DAMAGED, model, ["diffusion_pytorch_model.safetensors", *contains])
                self.drop(model)

    def test_tensors_missing_misshapen_and_of_a_strange_dtype(self):
        tensors, _ = read_safetensors(TINY / DIT)
        name = "layers.1.feed_forward.w2.weight"
        self.assertIn(name, tensors)
        dtype, shape, content = tensors[name]
        model = self.copy_model()

        def broken(replacement, contains, code=DAMAGED):
            changed = dict(tensors)
            del changed[name]
            if replacement:
                changed[name] = replacement
            write_safetensors(model / DIT, changed)
            self.bad(code, model, ["transformer", name.removesuffix(".weight"), *contains])

        broken(None, ["missing"])
        broken((dtype, list(reversed(shape)), content), [f"[{shape[1]}, {shape[0]}]", f"[{shape[0]}, {shape[1]}]"])
        broken((dtype, [shape[0] * shape[1]], content), [f"[{shape[0] * shape[1]}]"])
        broken(("I32", shape, content * 2), [])
        broken(("F4", shape, content[: len(content) // 4]), ["F4", "known are"], UNSUPPORTED)

    def test_an_extra_tensor_is_one_note(self):
        tensors, _ = read_safetensors(TINY / DIT)
        model = self.copy_model()
        write_safetensors(model / DIT, {**tensors, "left.over": ("F32", [2], bytes(8))})
        arguments = [word for word in FAST if word not in ("--model", str(TINY))]
        done = self.succeed("generate", *arguments, "--model", model, "--prompt", "x", "--output", "x.png")
        notes = [line for line in done.stderr.decode().splitlines() if "left.over" in line]
        self.assertEqual(len(notes), 1, done.stderr)
        self.assertTrue(notes[0].startswith("note: "))

    def test_weights_that_are_not_numbers(self):
        tensors, _ = read_safetensors(TINY / DIT)
        name = "layers.1.feed_forward.w2.weight"
        dtype, shape, content = tensors[name]
        self.assertEqual(dtype, "BF16")
        model = self.copy_model()
        write_safetensors(model / DIT, {**tensors, name: (dtype, shape, b"\xc0\x7f" * (len(content) // 2))})
        before = listing(self.folder)
        done = self.call("generate", *[word for word in FAST if word not in ("--model", str(TINY))], "--model", model, "--prompt", "x", "--output", "x.png", "--quiet")
        self.assertEqual(done.returncode, DAMAGED, done.stderr)
        self.assertIn(b"not finite", done.stderr)
        self.assertEqual(listing(self.folder), before)


if __name__ == "__main__":
    unittest.main()
