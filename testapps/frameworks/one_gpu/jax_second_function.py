# JAX compiles and loads a second function while a persistent kernel of another library runs.
# code: LG202
# culprit: spin_until
# needs: jax
# with-profile: completes
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import persistent


@jax.jit
def first(x):
    return x * 2


@jax.jit
def second(x):
    return jnp.tanh(x) + 1


x = first(jnp.ones(1024, jnp.float32)).block_until_ready()
persistent.start()
x = second(x)
persistent.end()
print(float(x[0]))
