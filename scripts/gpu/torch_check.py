"""A PyTorch program with a known answer: matrix product, convolution, sort, softmax.

Prints one JSON line: seconds to import, to initialise and for the first use of each operation,
device memory in use, and a digest of each result. Two runs on one card must give the same digests;
with and without the guard they must, too.

Must not know of the guard: it is an unmodified program.
"""

import array
import hashlib
import json
import os
import time

# cuBLAS gives the same bits in every run only with a fixed workspace; read when its handle is made.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

begin = time.monotonic()
import torch  # noqa: E402

imported = time.monotonic()
torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = False
torch.manual_seed(20)
# Made on the host, so that the inputs do not depend on the card.
matrix = torch.randn(1024, 1024)
picture = torch.randn(4, 8, 32, 32)
weights = torch.randn(16, 8, 3, 3)

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


def digest(tensor):
    # Through Python's own floats: the exact values, without asking for numpy.
    values = array.array("d", tensor.detach().cpu().flatten().tolist())
    return hashlib.sha256(values.tobytes()).hexdigest()[:16]


print(json.dumps({
    "torch": torch.__version__,
    "import_s": round(imported - begin, 3),
    "init_s": round(initialised - ready, 3),
    "first_use_s": round(used - initialised, 3),
    "cold_start_s": round(used - ready, 3),
    "device_memory_mb": round((total - free) / 2**20, 1),
    "sum": float(results["relu_sum"]),
    "results": {name: digest(tensor) for name, tensor in results.items()},
}))
