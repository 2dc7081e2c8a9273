"""Philox4x32-10 and the numbers that the law takes from it (part 5)."""

MASK32 = 0xFFFFFFFF
PURPOSE_DRAW, PURPOSE_REJECTION = 0, 1


def philox4x32_10(counter, key):
    """counter: four u32, key: two u32; returns four u32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0 = 0xD2511F53 * c0
        product1 = 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (product1 >> 32 ^ c1 ^ k0, product1 & MASK32,
                          product0 >> 32 ^ c3 ^ k1, product0 & MASK32)
        k0 = k0 + 0x9E3779B9 & MASK32
        k1 = k1 + 0xBB67AE85 & MASK32
    return c0, c1, c2, c3


def random64(seed, offset, stream, purpose, draw, round_number):
    """r: the 64 random bits of one draw or one trial."""
    c3 = purpose << 28 | draw << 16 | round_number & 0xFFFF
    out = philox4x32_10((offset & MASK32, offset >> 32, stream, c3),
                        (seed & MASK32, seed >> 32))
    return out[1] << 32 | out[0]
