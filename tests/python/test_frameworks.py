"""CuPy and JAX: one smoke test each."""

import numpy as np
import pytest

import tombola


def test_jax(logits):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x = jax.device_put(logits, jax.devices("cpu")[0])
    result = tombola.sample(x, seed=4, top_p=0.9, temperature=jax.device_put(np.full(5, 0.7, np.float32), x.device),
                            return_logprobs=True)
    assert isinstance(result.tokens, jax.Array)
    expected = tombola.sample(logits, seed=4, top_p=0.9, temperature=0.7, return_logprobs=True)
    assert (np.asarray(result.tokens) == expected.tokens).all()
    assert (np.asarray(result.logprobs) == expected.logprobs).all()
    half = x.astype(jax.numpy.bfloat16)
    assert tombola.mask(half, top_k=3).dtype == jax.numpy.bfloat16
    with pytest.raises(ValueError, match="^out: JAX arrays cannot be written"):
        tombola.sample(x, seed=4, out=jax.numpy.zeros(5, "int32"))
    written = jax.numpy.zeros(5, "int32")  # whatever library logits are of
    with pytest.raises(ValueError, match="^out: JAX arrays cannot be written"):
        tombola.sample(logits, seed=4, out=written)
    with pytest.raises(ValueError, match="^tokens: JAX arrays cannot be written"):
        tombola.sample(logits, seed=4, out=tombola.Sample(tokens=written))
    assert not written.any()


def test_cupy(logits):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        x = cupy.asarray(logits)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"CuPy has no device: {error}")
    expected = tombola.sample(logits, seed=4, top_p=0.9)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        tokens = tombola.sample(x, seed=4, top_p=0.9)
        stream.synchronize()
    assert isinstance(tokens, cupy.ndarray) and (tokens.get() == expected).all()
