"""The start of a PyTorch program with a known answer: matrix product, convolution, sort, softmax.

Must not know of the guard: it is part of an unmodified program. Must not use the card before `start` does: a process that has, cannot fork one that will.
"""

import array
import hashlib
import os
import time

# cuBLAS gives the same bits in every run only with a fixed workspace; read when its handle is made.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

begin = time.monotonic()
import torch  # noqa: E402

IMPORT_S = time.monotonic() - begin


def inputs():
    """Made on the host, so that they do not depend on the card."""
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.manual_seed(20)
    return torch.randn(1024, 1024), torch.randn(4, 8, 32, 32), torch.randn(16, 8, 3, 3)


def start(matrix, picture, weights):
    """Seconds to initialise and for the first use of each operation, device memory in use, and a digest of each result."""
    ready = time.monotonic()
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    initialised = time.monotonic()
    matrix, picture, weights = matrix.cuda(), picture.cuda(), weights.cuda()
    results = {
        "matmul": matrix @ matrix,
        "relu_sum": (matrix @ matrix).relu().sum(),
        "conv": torch.nn.functional.conv2d(picture, weights),
        "sort": torch.sort(matrix, dim=1).values,
        "softmax": torch.softmax(matrix, -1),
    }
    torch.cuda.synchronize()
    used = time.monotonic()
    free, total = torch.cuda.mem_get_info()
    return {
        "init_s": initialised - ready,
        "first_use_s": used - initialised,
        "cold_start_s": used - ready,
        "device_memory_mb": round((total - free) / 2**20, 1),
        "sum": float(results["relu_sum"]),
        "results": {name: digest(tensor) for name, tensor in results.items()},
    }


def digest(tensor):
    # Through Python's own floats: the exact values, without asking for numpy.
    values = array.array("d", tensor.detach().cpu().flatten().tolist())
    return hashlib.sha256(values.tobytes()).hexdigest()[:16]
