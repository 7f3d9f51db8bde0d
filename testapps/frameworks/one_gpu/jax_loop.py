# JAX: a compiled step of training in a loop, and a loop that is compiled as a whole.
# code: none
# needs: jax
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp


def loss(weights, batch):
    return jnp.mean(jnp.tanh(batch @ weights) ** 2)


@jax.jit
def step(weights, batch):
    return weights - 0.1 * jax.grad(loss)(weights, batch)


weights = jnp.sin(jnp.arange(64 * 64, dtype=jnp.float32)).reshape(64, 64)
batch = jnp.cos(jnp.arange(128 * 64, dtype=jnp.float32)).reshape(128, 64)
for _ in range(20):
    weights = step(weights, batch)
weights = jax.jit(lambda w: jax.lax.fori_loop(0, 20, lambda _, now: step(now, batch), w))(weights)
print(f"loss {float(loss(weights, batch)):.3f}")
