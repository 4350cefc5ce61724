"""Non-maximum suppression: the remaining boxes, sorted by score, without those that overlap a better remaining one."""

import halide as hl

from udogen.kernels import Whole


def Nms(boxes: Whole(2), keep, iou_threshold, offset):
    def common(a, b):  # the area that two boxes share; for a box with itself, its own area
        low, high = ([f(boxes[at, a], boxes[at, b]) for at in ats] for f, ats in ((hl.max, (0, 1)), (hl.min, (2, 3))))
        wide, tall = (hl.max(high[axis] - low[axis] + hl.f32(offset), 0.0) for axis in (0, 1))
        return wide * tall

    i, r = hl.Var("i"), hl.RDom([(0, boxes.extent(1)), (0, boxes.extent(1))])  # a box, and a better one
    overlap = common(r.x, r.y) / (common(r.x, r.x) + common(r.y, r.y) - common(r.x, r.y))
    r.where((r.y < r.x) & (overlap > iou_threshold))
    keep[i] = 1
    keep[r.x] = hl.select(keep[r.y] == 1, 0, keep[r.x])
