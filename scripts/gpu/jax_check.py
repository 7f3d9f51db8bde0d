"""A JAX program: a function compiled when first called, its gradient, and a sort.

Prints one JSON line. Must not know of the guard.
"""

import json
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


@jax.jit
def loss(weights, batch):
    return jnp.mean(jnp.tanh(batch @ weights) ** 2)


key = jax.random.PRNGKey(20)
weights, batch = jax.random.normal(key, (256, 256)), jax.random.normal(key, (512, 256))
for _ in range(10):
    weights = weights - 0.1 * jax.grad(loss)(weights, batch)
smallest = jnp.sort(weights.ravel())[0]
print(json.dumps({"platform": jax.devices()[0].platform, "loss": round(float(loss(weights, batch)), 3), "smallest": float(smallest) < 0}))
