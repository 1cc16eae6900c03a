"""What can be checked without a GPU, beyond what needs numpy only: tokeniser, networks, growing, painting on torch, packing."""
import dataclasses
import json
import pathlib
import random
import tempfile
import unittest
import unittest.mock

import numpy
import torch

import __main__ as program
import captions
import checkpoints
import network
import painting
import sampling
import scenes
import text

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHIPPED = ROOT / "models" / "demo"


class Tokeniser(unittest.TestCase):
    def test_every_caption_comes_back(self):
        rng = random.Random(4)
        for tokenizer in (text.load(SHIPPED / "tokenizer" / "tokenizer.json"), text.train(640)):
            for _ in range(300):
                scene = scenes.random_scene(rng)
                for caption in (captions.sentence(scene, rng), captions.json_caption(scene, rng)):
                    self.assertEqual(tokenizer.decode(tokenizer.encode(caption, add_special_tokens=False).ids), caption)

    def test_a_drawn_character_is_a_token(self):
        for tokenizer in (text.load(SHIPPED / "tokenizer" / "tokenizer.json"), text.train(640)):
            for word in ("QUARTZ", "X7Y", "2026"):
                tokens = tokenizer.encode(f'the word "{word}" in red', add_special_tokens=False).tokens
                self.assertEqual([token for token in tokens if token in word], list(word))

    def test_padding_is_on_the_right(self):
        ids, lengths = text.encode(text.load(SHIPPED / "tokenizer" / "tokenizer.json"), ["a red circle", "a red circle on a blue background"])
        self.assertEqual(ids.shape, (2, lengths.max()))
        self.assertTrue((ids[0, lengths[0] :] == 0).all())


class Painting(unittest.TestCase):
    def test_torch_paints_what_numpy_paints(self):
        rng = random.Random(2)
        for canvas in scenes.CANVASES:
            packed = scenes.pack([scenes.random_scene(rng, canvas) for _ in range(12)])
            difference = numpy.abs(painting.Painter(canvas)(packed) - painting.Painter(canvas, torch, "cpu")(packed).numpy()).max()
            self.assertLess(difference, 1e-4)  # float32 distances up to 400 pixels, two libraries' roots and arcs

    def test_a_batch_is_its_pictures(self):
        packed = scenes.pack([scenes.random_scene(random.Random(i), scenes.CANVASES[0]) for i in range(6)])
        painter = painting.Painter(scenes.CANVASES[0])
        numpy.testing.assert_array_equal(painter(packed)[3], painter(packed, 3, 4)[0])


class Networks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.sizes = network.SMOKE
        self.cond = network.Denoiser(self.sizes.cond, self.sizes).eval().requires_grad_(False)
        for module in self.cond.modules():  # an untrained model says 0 everywhere
            if isinstance(module, torch.nn.Linear) and module.weight.abs().max() == 0:
                torch.nn.init.normal_(module.weight, std=0.2)

    def test_samples_do_not_see_each_other_nor_padding(self):
        parts = [network.Part(canvas, 1, text) for canvas, text in zip(scenes.CANVASES, (56, 72, 72))]
        latents = [torch.randn(1, part.image, self.sizes.token_channels) for part in parts]
        t, features, lengths = torch.rand(3), torch.randn(3, 72, self.sizes.features), torch.tensor([7, 30, 12])
        together = self.cond(parts, latents, t, features, lengths)
        for k, part in enumerate(parts):
            alone = network.Part(part.canvas, 1, int(lengths[k]))
            single = self.cond([alone], [latents[k]], t[k : k + 1], features[k : k + 1, : alone.text], lengths[k : k + 1])[0]
            torch.testing.assert_close(together[k], single, rtol=1e-4, atol=1e-5)
        self.assertGreater(together[0].abs().max(), 0.01)

    def test_tokens_and_back(self):
        z = torch.randn(2, 5, 24, 16)
        torch.testing.assert_close(network.from_tokens(network.to_tokens(z), (12, 8)), z)


class Growing(unittest.TestCase):
    def test_the_old_channels_are_untouched(self):
        old, sizes, _ = checkpoints.load_model(SHIPPED)
        if sizes.latent >= 16:
            self.skipTest("the shipped model has 16 latent channels")
        grown = network.build(dataclasses.replace(sizes, latent=16))
        with torch.no_grad():
            checkpoints.load_into(grown, SHIPPED, dataclasses.replace(sizes, latent=16))
            image = torch.rand(1, 3, 64, 64) * 2 - 1
            mean, log_variance = old["vae"].encode(image)
            new_mean, new_log_variance = grown["vae"].encode(image)
            torch.testing.assert_close(new_mean[:, : sizes.latent], mean)
            torch.testing.assert_close(new_log_variance[:, : sizes.latent], log_variance)
            # Where the new channels' input weights are 0, the denoiser says on the old channels what it said, and 0 on the new ones.
            grown["unconditional_transformer"].input_proj.weight.view(-1, 4, 16)[:, :, sizes.latent :] = 0
            part, z = [network.Part((64, 64), 1, 0)], torch.randn(1, 16, 64)
            velocity = grown["unconditional_transformer"](part, [z], torch.tensor([0.4]))[0].view(1, 16, 4, 16)
            before = old["unconditional_transformer"](part, [z.view(1, 16, 4, 16)[..., : sizes.latent].flatten(2)], torch.tensor([0.4]))[0]
        torch.testing.assert_close(velocity[..., : sizes.latent].flatten(2), before, rtol=1e-4, atol=1e-4)
        self.assertEqual(velocity[..., sizes.latent :].abs().max(), 0)


class Folders(unittest.TestCase):
    def test_export_read_and_archives(self):
        with tempfile.TemporaryDirectory() as place:
            place = pathlib.Path(place)
            networks = network.build(network.SMOKE)
            with torch.no_grad():
                checkpoints.rounded(networks)
            checkpoints.export(networks, network.SMOKE, text.load(SHIPPED / "tokenizer" / "tokenizer.json"), place / "model")
            program.pack(place / "model", place)
            program.unpack(program.argparse.Namespace(archives=place, folder=place / "again"))
            back, sizes, _ = checkpoints.load_model(place / "again")
            self.assertEqual(sizes, network.SMOKE)
            for name in networks:
                for key, value in networks[name].state_dict().items():
                    self.assertTrue(torch.equal(value, back[name].state_dict()[key]), f"{name} {key}")


    def test_a_part_too_large_for_one_file(self):
        with tempfile.TemporaryDirectory() as place, unittest.mock.patch.object(checkpoints, "LARGEST_FILE", 60_000):
            folder = pathlib.Path(place) / "transformer"
            folder.mkdir()
            tensors = {f"layers.{k}": torch.randn(64, 64) for k in range(10)}
            checkpoints.save_shards(tensors, folder, "diffusion_pytorch_model.safetensors")
            files = sorted(path.name for path in folder.glob("*.safetensors"))
            self.assertEqual(files, [f"diffusion_pytorch_model-{k:05}-of-00004.safetensors" for k in range(1, 5)])
            places = json.loads((folder / "diffusion_pytorch_model.safetensors.index.json").read_text())["weight_map"]
            self.assertEqual((places.keys(), set(places.values())), (tensors.keys(), set(files)))
            back = checkpoints.read_tensors(folder)
            self.assertTrue(all(torch.equal(back[key], value) for key, value in tensors.items()))


class Schedule(unittest.TestCase):
    def test_falls_to_exactly_zero(self):
        for canvas in scenes.CANVASES:
            levels = sampling.sigmas(12, 0.7, 1.5, canvas)
            self.assertEqual((len(levels), levels[-1]), (13, 0.0))
            self.assertTrue(all(a > b for a, b in zip(levels, levels[1:])))


def main():
    unittest.main(module="self_test", argv=["self-test"])
