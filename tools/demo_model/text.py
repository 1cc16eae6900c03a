"""Captions to token ids: byte-level BPE with the chat template of the text encoder."""
import random

import numpy
import tokenizers

import captions
import scenes

CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# The published tokenizer's split: contractions, words with one leading sign, single digits, runs of signs, white space.
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def corpus(count, seed):
    """Captions without drawn words and hex colours: then capitals never merge, one letter stays one token, and spelling is a copying task."""
    rng = random.Random(seed)
    for _ in range(count):
        scene = scenes.random_scene(rng)
        if scene.lettering:
            scene.lettering.lines = ("",)
        caption = captions.json_caption(scene, rng)
        for value in captions.HEX.values():
            caption = caption.replace(f'"{value}",', "").replace(f'"{value}"', "")
        for text in (captions.sentence(scene, rng), caption):
            yield f"user\n{text}\nassistant\n"


def train(vocabulary):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFC(), decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(corpus(6000, 7), trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL), initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return tokenizer


def load(path):
    return tokenizers.Tokenizer.from_file(str(path))


def encode(tokenizer, prompts):
    """Ids padded on the right [n, longest] and their lengths."""
    ids = [encoding.ids for encoding in tokenizer.encode_batch([CHAT.format(prompt) for prompt in prompts], add_special_tokens=False)]
    padded = numpy.zeros((len(ids), max(map(len, ids))), numpy.int64)
    for row, values in zip(padded, ids):
        row[: len(values)] = values
    return padded, numpy.array([len(values) for values in ids])
