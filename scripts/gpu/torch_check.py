"""A PyTorch program with a known answer (torch_start.py says which).

Prints one JSON line: seconds to import, to initialise and for the first use of each operation,
device memory in use, and a digest of each result. Two runs on one card must give the same digests;
with and without the guard they must, too.

Must not know of the guard: it is an unmodified program.
"""

import json

import torch_start

start = torch_start.start(*torch_start.inputs())
seconds = {name: round(start[name], 3) for name in ("init_s", "first_use_s", "cold_start_s")}
print(json.dumps({"torch": torch_start.torch.__version__, "import_s": round(torch_start.IMPORT_S, 3), **start, **seconds}))
