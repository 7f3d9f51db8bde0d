# JAX: batches go to the device while the step before runs, and donated buffers come back.
# code: none
# needs: jax numpy
import functools
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy


@functools.partial(jax.jit, donate_argnums=0)
def step(state, batch):
    return state * 0.9 + jnp.tanh(batch).sum(axis=0)


state = jnp.zeros(512)
for number in range(20):
    state = step(state, jax.device_put(numpy.full((256, 512), number / 20, numpy.float32)))
print(f"{float(state.mean()):.1f}")
