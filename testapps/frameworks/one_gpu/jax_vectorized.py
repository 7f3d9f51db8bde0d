# JAX: a scan inside a vectorized function, a decomposition, and an optimizer of optax.
# code: none
# needs: jax optax
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import optax


def walk(start):
    return jax.lax.scan(lambda now, add: (now * 0.5 + add, now), start, jnp.arange(32.0))[0]


ends = jax.jit(jax.vmap(walk))(jnp.arange(1024.0))
triangle = jnp.linalg.cholesky(jnp.eye(64) * 4 + 0.01)
optimizer = optax.adam(0.05)
weights = jnp.ones(64)
state = optimizer.init(weights)


@jax.jit
def step(weights, state):
    updates, state = optimizer.update(jax.grad(lambda w: jnp.sum((triangle @ w) ** 2))(weights), state)
    return optax.apply_updates(weights, updates), state


for _ in range(30):
    weights, state = step(weights, state)
print(f"{float(ends.sum()):.0f} {float(jnp.abs(weights).max()) < 1}")
