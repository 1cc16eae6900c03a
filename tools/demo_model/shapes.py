"""Signed distances to the ten shapes, in pixels, negative inside. One text for numpy and torch: `xp` is either module.

x and y are offsets from the shape's centre (y downwards), r its radius; all broadcast.
"""
import math


def half_plane(x, y, point, normal):
    length = math.hypot(*normal)
    return ((x - point[0]) * normal[0] + (y - point[1]) * normal[1]) / length


def circle(xp, x, y, r):
    return xp.hypot(x, y) - r


def square(xp, x, y, r):
    return xp.maximum(xp.abs(x), xp.abs(y)) - 0.86 * r


def triangle(xp, x, y, r):
    """Apex (0, -r), base from (-0.97 r, 0.7 r) to (0.97 r, 0.7 r)."""
    side = half_plane(xp.abs(x), y, (0 * r, -r), (1.70, -0.97))
    return xp.maximum(side, y - 0.70 * r)


def star(xp, x, y, r):
    """Five points: the plane is folded onto one half of one point, whose edge runs from the tip to the notch."""
    fold = math.pi / 5
    angle = xp.abs(xp.remainder(xp.arctan2(x, -y) + fold, 2 * fold) - fold)
    length = xp.hypot(x, y)
    notch = (0.45 * math.cos(fold), 0.45 * math.sin(fold))
    return half_plane(length * xp.cos(angle), length * xp.sin(angle), (r, 0 * r), (notch[1], 1 - notch[0]))


def heart(xp, x, y, r):
    """Two quarter-turned lobes (circles around (1/4, 3/4) of radius √2/4) above a square corner at the origin, in units of 1.72 r."""
    unit = 1.72 * r
    u, v = xp.abs(x) / unit, (0.92 * r - y) / unit
    lobe = xp.hypot(u - 0.25, v - 0.75) - math.sqrt(2) / 4
    along = 0.5 * xp.clip(u + v, 0, None)
    body = xp.sqrt(xp.minimum(u**2 + (v - 1) ** 2, (u - along) ** 2 + (v - along) ** 2)) * xp.sign(u - v)
    return xp.where(u + v > 1, lobe, body) * unit


def ring(xp, x, y, r):
    return xp.abs(xp.hypot(x, y) - 0.76 * r) - 0.22 * r


def diamond(xp, x, y, r):
    return (1.3 * xp.abs(x) + xp.abs(y) - r) / math.hypot(1.3, 1)


def hexagon(xp, x, y, r):
    x, y = xp.abs(x), xp.abs(y)
    return xp.maximum(math.sqrt(0.75) * x + 0.5 * y, y) - 0.87 * r


def cross(xp, x, y, r):
    x, y = xp.abs(x), xp.abs(y)
    return xp.minimum(xp.maximum(x - 0.92 * r, y - 0.31 * r), xp.maximum(x - 0.31 * r, y - 0.92 * r))


def moon(xp, x, y, r):
    return xp.maximum(xp.hypot(x, y) - r, 0.82 * r - xp.hypot(x - 0.42 * r, y + 0.12 * r))


DISTANCE = {function.__name__: function for function in (circle, square, triangle, star, heart, ring, diamond, hexagon, cross, moon)}
