"""Makes plain-zero.woff2: the digit zero of Atkinson Hyperlegible Next without its slash, at every weight.

usage: plain-zero.py atkinson-hyperlegible-next-latin-wght-normal.woff2 plain-zero.woff2 (needs fonttools and brotli)

The slash lies between two counters. Their outer arcs become one counter; where the slash touched, a curve continues them.
"""
import sys
from fontTools import subset
from fontTools.ttLib import TTFont

font = TTFont(sys.argv[1])
options = subset.Options(layout_features=["*"], glyph_names=False, name_IDs=[1, 13, 14])
subsetter = subset.Subsetter(options)
subsetter.populate(unicodes=[0x30])
subsetter.subset(font)

name = font.getBestCmap()[0x30]
glyph, variations = font["glyf"][name], font["gvar"].variations[name]
FIRST, SECOND = 20, 28  # where the arcs of the counters begin
assert list(glyph.endPtsOfContours) == [15, 26, 38]
arcs = [[*range(FIRST, 27), *range(16, FIRST)], [*range(SECOND, 39), 27]]


def corner(points, before, end, start, after):
    """The control point that continues both arcs: where their tangents meet."""
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = (points[each] for each in (before, end, start, after))
    ux, uy, vx, vy = bx - ax, by - ay, cx - dx, cy - dy
    along = ((cx - bx) * vy - (cy - by) * vx) / (ux * vy - uy * vx)
    return (bx + along * ux, by + along * uy)


def merged(points):
    first, second = arcs
    joins = [corner(points, a[-2], a[-1], b[0], b[1]) for a, b in ((first, second), (second, first))]
    return [points[each] for each in first] + joins[:1] + [points[each] for each in second] + joins[1:]


default = list(glyph.coordinates)
inner = merged(default)
for variation in variations:
    assert all(variation.coordinates)
    moved = [(x + dx, y + dy) for (x, y), (dx, dy) in zip(default, variation.coordinates)]
    deltas = [(round(mx - x), round(my - y)) for (mx, my), (x, y) in zip(merged(moved), inner)]
    variation.coordinates = variation.coordinates[:16] + deltas + variation.coordinates[39:]

flags = [glyph.flags[each] for each in arcs[0]] + [0] + [glyph.flags[each] for each in arcs[1]] + [0]
glyph.coordinates = type(glyph.coordinates)([*default[:16], *((round(x), round(y)) for x, y in inner)])
glyph.flags = bytearray([*glyph.flags[:16], *(each & 1 for each in flags)])
glyph.endPtsOfContours = [15, 15 + len(inner)]
glyph.numberOfContours = 2
glyph.program.fromBytecode(b"")
for unused in ("prep", "GDEF", "GPOS", "MVAR", "STAT", "gasp"):
    if unused in font:
        del font[unused]
font.flavor = "woff2"
font.save(sys.argv[2])
