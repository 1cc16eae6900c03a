#!/usr/bin/env python3
"""Writes tests/unit/text/data/tokenizer_cases.json: hard texts with the ids that the `tokenizers` package gives for the demo tokenizer.

    python3 -m pip install tokenizers && python3 tools/make_tokenizer_cases.py

Most texts are chosen, each for a hazard; a few random ones follow.
"""
import argparse
import json
import pathlib
import random

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "models/demo/tokenizer"
OUTPUT = ROOT / "tests/unit/text/data/tokenizer_cases.json"

CASES = {
    "empty": "",
    "one space": " ",
    "spaces before a word": "   word",
    "spaces at the end": "word   ",
    "tabs and spaces": "\t \t word\t\tend \t",
    "line ends of three kinds": "a\nb\r\nc\rd",
    "blank lines with spaces": "a \n \n\n  b",
    "spaces after line ends": "\n\n   \n  x",
    "no-break and ideographic space": "a\u00a0b\u3000c\u3000\u3000 d",
    "line and paragraph separator": "a\u2028b\u2029c\u0085d",
    "mongolian vowel separator is no space": "a\u180e \u180eb",
    "zero width is no space": "a\u200bb\u200cc\u200dd\ufeffe",
    "information separators are no spaces": "a\x1cb\x1dc\x1ed\x1fe",
    "vertical tab and form feed": "a\x0bb\x0cc",
    "contractions": "don't we'll I'm you've he'd it's they're",
    "contractions in capitals": "DON'T WE'LL I'M YOU'VE HE'D IT'S THEY'RE",
    "contraction with long s": "it'\u017f a'\u017fb",
    "contraction after a space": "a 's b 'll c",
    "apostrophes in a row": "''s '''t ''''",
    "curly apostrophe is no contraction": "don\u2019t it\u2019s",
    "digits one by one": "1234567890 12.5 1,000",
    "digits of other scripts": "\u0660\u0661\u0662 \u0966\u0967 \uff11\uff12 \u00bd\u00b2\u2167\u2460",
    "letters and digits": "a1b2 3c4d x86 h2o",
    "signs": "!!! ?! ... -- -> <- == != &&",
    "sign glued to a word": "#tag @name $5 %x (y) [z] {w} -v /u",
    "signs before line ends": "end.\n\nstart!\r\n\r\n?",
    "underscores": "snake_case __init__ _",
    "json caption": '{"high_level_description":"three stars","elements":[{"type":"obj","bbox":[0,0,500,1000],"desc":"a \\"star\\""}]}',
    "hex colours": "#FF0000 #1A2B3C #ffffff",
    "composed and decomposed": "\u00e9 e\u0301 \u00c5 A\u030a \u212b",
    "marks out of order": "a\u0323\u0301 a\u0301\u0323 o\u0302\u0323",
    "marks without a letter": "\u0301 \u0301\u0302 x \u0323",
    "marks are signs to the split": "he\u0336llo\u0336 z\u0335a\u0335",
    "composition excluded": "\u0958 \u0915\u093c \u2adc \ufb1d",
    "singletons": "\u2126 \u212a \u1fef \u037e \u2000 \u2001",
    "greek tonos and oxia": "\u1f71 \u03ac \u0344",
    "ligatures stay": "\ufb01nd o\ufb00 \ufb06",
    "hangul jamo compose": "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00",
    "hangul with odd jamo": "\u1100\u1100\u1161 \uac00\u11a8 \uac01\u11a8",
    "chinese": "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u6c49\u5b57",
    "japanese": "\u3053\u3093\u306b\u3061\u306f\u3001\u30bb\u30ab\u30a4 \u304b\u3099 \uff76\uff9e",
    "compatibility ideographs": "\uf900 \uf91d \U0002f800",
    "ideographs outside the first plane": "\U00020000\U00020001a\U0002a6d6",
    "arabic": "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0627\u0653",
    "hebrew with points": "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",
    "marks of direction": "\u200fabc\u200e \u202eabc\u202c",
    "devanagari": "\u0928\u092e\u0938\u094d\u0924\u0947 \u0915\u094d\u0937",
    "thai": "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e04\u0e23\u0e31\u0e1a",
    "emoji": "\U0001f600\U0001f600 \U0001f600a",
    "emoji family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "flags": "\U0001f1e9\U0001f1ea\U0001f1ef\U0001f1f5",
    "skin tone and variation selector": "\U0001f44d\U0001f3fd \u2764\ufe0f 1\ufe0f\u20e3",
    "rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "mathematical letters": "\U0001d400\U0001d41a \u2200x\u2208\u211d",
    "private use and noncharacters": "\ue000 \U000f0000 \uffff \U0010ffff",
    "control characters": "\x01\x02\x1b[0m\x7f",
    "special token in the text": "a<|im_end|>b",
    "special tokens in a row": "<|im_start|><|im_end|><|endoftext|>",
    "special token cut short": "<|im_end| > <|im_end <|im_|im_end|> |>",
    "special token within a special token": "<|im_<|im_end|>end|>",
    "special token between spaces": "a  <|im_end|>  b",
    "special token before a mark": "e<|im_end|>\u0301e\u0301",
    "contraction across a special token": "it<|im_end|>'s '<|im_end|>s",
    "chat template": "<|im_start|>user\nA photo of a cat<|im_end|>\n<|im_start|>assistant\n",
    "long word": "pneumonoultramicroscopicsilicovolcanoconiosis" * 3,
    "one letter many times": "a" * 200,
    "one space many times": " " * 200 + "x",
    "mixed run of white space": " \t\n \r\n\t \u3000\n " * 8,
    "one sign many times": "=" * 100 + " " + "-" * 49,
    "words in one line": "three orange stars in a row on a blue background, " * 4,
}


def random_text(rng):
    pools = ["etaoinshrdlu EA'", " \t\r\n\u00a0\u3000", "0123", "!?.,:;\"'()", "\u4e16\u754c\u3042", "\u05e9\u05b8\u0645", "\u0301\u0323\u0327", "\U0001f600\u200d\ufe0f"]
    chosen = rng.sample(pools, rng.randint(1, 4))
    return "".join(rng.choice(rng.choice(chosen)) for _ in range(rng.randint(1, 30)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=64, metavar="N", help="random cases after the chosen ones (fixed seed)")
    arguments = parser.parse_args()
    reference = tokenizers.Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    rng = random.Random(20261130)
    cases = dict(CASES)
    cases.update({f"random {i}": random_text(rng) for i in range(arguments.random)})
    lines = [json.dumps({"name": name, "text": text, "ids": reference.encode(text).ids}, separators=(",", ":")) for name, text in cases.items()]
    head = json.dumps({"origin": f"tools/make_tokenizer_cases.py, tokenizers {tokenizers.__version__}", "tokenizer": "models/demo/tokenizer"})[1:-1]
    OUTPUT.write_text("{" + head + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n", encoding="ascii")
    print(f"{OUTPUT.relative_to(ROOT)}: {len(cases)} cases")


if __name__ == "__main__":
    main()
