"""The ten public ops in numpy, from their definitions."""

import numpy as np


def skip_layer_normalization(input, skip, gamma, beta, bias, epsilon=1e-12):
    total = input + skip + (0 if bias is None else bias)
    mean = total.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(((total - mean) ** 2).mean(axis=-1, keepdims=True) + epsilon)
    return (total - mean) / deviation * gamma + (0 if beta is None else beta), total


def rotary_embedding(input, position_ids, cos_cache, sin_cache, interleaved=0):
    half = cos_cache.shape[1]
    cosines, sines = (each[position_ids][:, None] for each in (cos_cache, sin_cache))
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    turned = input.copy()
    turned[..., first] = input[..., first] * cosines - input[..., second] * sines
    turned[..., second] = input[..., second] * cosines + input[..., first] * sines
    return turned


def group_query_attention(query, key, value, seqlens_k, scale=0.25):
    key, value = (np.repeat(item, query.shape[1] // key.shape[1], axis=1) for item in (key, value))
    scores = scale * query @ key.swapaxes(-1, -2)
    queries, keys = query.shape[2], key.shape[2]
    last = seqlens_k[:, None, None, None] - queries + 1 + np.arange(queries)[:, None]
    scores = np.where(np.arange(keys) <= last, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value


def mat_mul_n_bits(A, B, scales, zero_points):
    def unpacked(packed):
        return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1).astype(np.float64)

    zeros = 8.0 if zero_points is None else unpacked(zero_points)[:, : scales.shape[1], None]
    weights = (unpacked(B) - zeros) * scales[:, :, None]
    return A @ weights.reshape(len(B), -1)[:, : A.shape[1]].T


def wkv(w, u, k, v):
    result = np.empty_like(v)
    for t in range(k.shape[1]):
        weights = np.concatenate([k[:, :t] + w * np.arange(t - 1, -1, -1)[:, None], k[:, t : t + 1] + u], axis=1)
        shares = np.exp(weights - weights.max(axis=1, keepdims=True))
        result[:, t] = (shares * v[:, : t + 1]).sum(axis=1) / shares.sum(axis=1)
    return result


def nms(boxes, iou_threshold=0.5, offset=0):
    keep = np.ones(len(boxes), np.int32)
    sizes = (boxes[:, 2:] - boxes[:, :2] + offset).prod(axis=1)
    for i in range(len(boxes)):
        low, high = np.maximum(boxes[i, :2], boxes[:i, :2]), np.minimum(boxes[i, 2:], boxes[:i, 2:])
        common = np.maximum(high - low + offset, 0).prod(axis=1)
        keep[i] = not (keep[:i].astype(bool) & (common / (sizes[:i] + sizes[i] - common) > iou_threshold)).any()
    return keep


def _bilinear(image, y, x):
    """Return the image (C, H, W) interpolated between its pixels; all pixels outside are zero."""
    total, (_, height, width) = 0, image.shape
    for row in (np.floor(y), np.floor(y) + 1):
        for column in (np.floor(x), np.floor(x) + 1):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            at = [np.clip(each, 0, most - 1).astype(int) for each, most in ((row, height), (column, width))]
            total = total + image[:, at[0], at[1]] * inside * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def roi_align(input, rois, spatial_scale=1.0, sampling_ratio=2, aligned=1, bins=(2, 3)):
    result = np.zeros((len(rois), input.shape[1], *bins))
    height, width = input.shape[2:]
    for n, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = np.array(corners) * spatial_scale - 0.5 * aligned
        sizes = (y2 - y1, x2 - x1) if aligned else (max(y2 - y1, 1), max(x2 - x1, 1))
        steps = [(np.arange(count * sampling_ratio) + 0.5) / sampling_ratio / count for count in bins]
        y, x = np.meshgrid(y1 + steps[0] * sizes[0], x1 + steps[1] * sizes[1], indexing="ij")
        inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
        samples = inside * _bilinear(input[int(image)], np.clip(y, 0, height - 1), np.clip(x, 0, width - 1))
        result[n] = samples.reshape(-1, bins[0], sampling_ratio, bins[1], sampling_ratio).mean(axis=(2, 4))
    return result


def modulated_deform_conv2d(input, offset, mask, weight, bias, stride=1, padding=0, dilation=1):
    rows, columns = offset.shape[2:]
    y, x = np.meshgrid(np.arange(rows) * stride - padding, np.arange(columns) * stride - padding, indexing="ij")
    result = np.zeros((len(input), len(weight), rows, columns))
    for n, image in enumerate(input):
        for tap, (i, j) in enumerate(np.ndindex(weight.shape[2:])):
            places = y + i * dilation + offset[n, 2 * tap], x + j * dilation + offset[n, 2 * tap + 1]
            samples = _bilinear(image, *places) * mask[n, tap]
            result[n] += np.tensordot(weight[:, :, i, j], samples, 1)
    return result if bias is None else result + bias[:, None, None]


def scatter_nd(data, indices, updates):
    result = data.copy()
    for index, update in zip(indices[:, 0], updates, strict=True):
        result[index] = update
    return result


def llama_super_silu(a, b, a_scale=1.0, b_scale=1.0, o_scale=1.0):
    gate, up = (a.astype(float) - 128) * a_scale, (b.astype(float) - 128) * b_scale
    return (np.clip(np.rint(gate / (1 + np.exp(-gate)) * up / o_scale), -128, 127) + 128).astype(np.uint8)
