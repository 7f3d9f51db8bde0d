# Rank 1 writes a checkpoint for several thresholds, piece by piece, and goes on.
# code: none
import tempfile
import time

from training import begin, end, train


def save(_):
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(60):
            file.write(b"weights" * 100000)
            file.flush()
            time.sleep(0.2)


begin()
train(step=save)
end()
