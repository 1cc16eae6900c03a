"""Captions of a scene: sentences, and compact JSON in the manner of Ideogram 4."""
import json

from vocabulary import COUNTS, HEX


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def plain(thing):
    return f"{thing.colour} {thing.shape}"


def sized(thing):
    return plain(thing) if thing.size == "medium" else f"{thing.size} {plain(thing)}"


def row_of(scene):
    thing = scene.things[0]
    return f"{COUNTS[len(scene.things)]} {thing.colour} {thing.shape}{'es' if thing.shape == 'cross' else 's'}"


def at(place, rng):
    if place == "center":
        return " in the center"
    if place in ("left", "right"):
        return f" on the {place}"
    if place in ("top", "bottom"):
        return f" at the {place}"
    return f" in the {place}" + (" corner" if rng.random() < 0.2 else "")


def background_phrase(scene, rng):
    surface, first, second = scene.background
    return {"solid": rng.choice(("", "solid ")) + first, "vertical": f"{first} to {second} vertical gradient",
            "horizontal": f"{first} to {second} horizontal gradient", "halves": f"half {first} half {second}",
            "stripes": f"{first} and {second} striped"}[surface] + " background"


def pair_phrase(scene, rng):
    first, second = scene.things
    say = sized if scene.fully_named or rng.random() < 0.7 else plain
    a, b = article(say(first)), article(say(second))
    if scene.relation != "diagonal" and rng.random() < 0.65:
        if scene.relation == "beside":
            forward, backward = rng.choice(("to the left of", "left of")), rng.choice(("to the right of", "right of"))
        else:
            forward, backward = "above", "below"
        return f"{a} {forward} {b}" if rng.random() < 0.5 else f"{b} {backward} {a}"
    parts = [a + at(first.place, rng), b + at(second.place, rng)]
    if rng.random() < 0.3:
        parts.reverse()
    return " and ".join(parts)


def things_phrase(scene, rng):
    things = scene.things
    if scene.kind == "one":
        say = sized if scene.fully_named or rng.random() < 0.8 else plain
        return article(say(things[0])) + (at(things[0].place, rng) if scene.fully_named or rng.random() < 0.85 else "")
    if scene.kind == "two":
        return pair_phrase(scene, rng)
    if scene.kind == "count":
        return row_of(scene) + rng.choice(("", " in a row"))
    if scene.kind == "three":
        first, second, third = (article(plain(thing)) + at(thing.place, rng) for thing in things)
        return f"{first}, {second} and {third}"
    if scene.kind == "nest":
        outer, inner = article(plain(things[0])), article(plain(things[1]))
        return rng.choice((f"{inner} inside {outer}", f"{outer} with {inner} inside"))
    return ""


def text_size(lettering, rng):
    """Named where it is not what would be drawn anyway, sometimes where it is."""
    return lettering.size + " " if lettering.size != lettering.default_size or rng.random() < 0.2 else ""


def text_phrase(scene, rng):
    lettering = scene.lettering
    where = "" if lettering.place == "center" and rng.random() < 0.5 else at(lettering.place, rng)
    words = " ".join(lettering.lines)
    noun = "words" if len(lettering.lines) > 1 else "number" if words.isdigit() and rng.random() < 0.6 else "word"
    size = text_size(lettering, rng)
    return rng.choice((f'the {size}{noun} "{words}" in {lettering.colour}{where}', f'{size}{lettering.colour} text "{words}"{where}'))


def sentence(scene, rng):
    background, things = background_phrase(scene, rng), things_phrase(scene, rng)
    text = text_phrase(scene, rng) if scene.lettering else ""
    body = things or text
    if things and text:
        body = f"{things} and {text}" if rng.random() < 0.7 else f"{text} and {things}"
    form = rng.random()
    if form < 0.4:
        caption = f"{body} on {article(background)}"
    elif form < 0.6:
        caption = f"{article(rng.choice(('poster', 'flat poster', 'card', 'simple design', 'flat illustration')))} with {body}, {background}"
    elif form < 0.8:
        caption = f"{body}, {background}"
    else:
        caption = f"{background}, {body}"
    return caption[0].upper() + caption[1:] if rng.random() < 0.5 else caption


def json_caption(scene, rng):
    surface, first, second = scene.background
    summary = things_phrase(scene, rng)
    headline = rng.choice(("flat poster", "simple design", "flat illustration", "card")) + " with " + (summary or "a word")
    if summary and scene.lettering and rng.random() < 0.5:
        headline += " and a word"
    background = {"solid": f"solid {first}", "vertical": f"vertical gradient {first} to {second}", "horizontal": f"horizontal gradient {first} to {second}",
                  "halves": f"half {first} half {second}", "stripes": f"{first} and {second} stripes"}[surface]
    if scene.kind == "count":
        descriptions = [row_of(scene) + " in a row"]
    elif scene.kind == "nest":
        descriptions = [f"large {plain(scene.things[0])}, center", f"{plain(scene.things[1])} inside the {scene.things[0].shape}"]
    else:
        descriptions = [f"{sized(thing)}, {thing.place}" for thing in scene.things]
    elements = [{"type": "obj", "desc": text} for text in descriptions]
    if scene.lettering:
        lettering = scene.lettering
        elements.append({"type": "text", "text": "\n".join(lettering.lines), "desc": f"{text_size(lettering, rng)}{lettering.colour}, {lettering.place}"})
    caption = {"high_level_description": headline}
    if rng.random() < 0.75:
        colours = [first, second] + [thing.colour for thing in scene.things] + ([scene.lettering.colour] if scene.lettering else [])
        caption["style_description"] = {"color_palette": [HEX[colour] for colour in dict.fromkeys(colours)]}
    caption["compositional_deconstruction"] = {"background": background, "elements": elements}
    return json.dumps(caption, separators=(",", ":"))


def evaluation_captions(scenes, rng):
    """Every third one is JSON."""
    return [json_caption(scene, rng) if index % 3 == 0 else sentence(scene, rng) for index, scene in enumerate(scenes)]
