"""The shape of MaxPool's output, for `udogen run op --rules` and `udogen test`."""


def windows(length, size, stride):
    """How many windows a row of this length has; the last one may end outside."""
    if size < 1 or stride < 1:
        raise ValueError(f"size {size} and stride {stride} must be at least 1")
    count = -(-max(length - size, 0) // stride) + 1
    if (count - 1) * stride >= length:
        count -= 1  # it would begin outside
    return count


def MaxPool(op):
    batch, rows, columns, channels = op.image.shape
    return {"pooled": [batch, windows(rows, op.size, op.stride), windows(columns, op.size, op.stride), channels]}
