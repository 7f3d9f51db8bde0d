"""Launches a kernel that raises an exception of the device, and prints what the driver answers.

    faulting_kernel.py bad-address|misaligned|trap|shared|breakpoint|late

On a card `bad-address` prints: synchronize 700, query 700, copy 700, allocate 700, again 700

Must not know of the guard: it is an unmodified program.
"""

import ctypes
import sys
import time

FAULTS = {
    "bad-address": "mov.u64 %address, 16; st.volatile.global.u32 [%address], 1;",
    "misaligned": "ld.param.u64 %address, [memory]; add.u64 %address, %address, 1; st.volatile.global.u32 [%address], 1;",
    "trap": "trap;",
    "shared": "mov.u32 %word, 0x7ffff0; st.volatile.shared.u32 [%word], %word;",
    "breakpoint": "brkpt;",
    # After 0.8 s.
    "late": "mov.u32 %word, 0; LOOP: nanosleep.u32 1000000; add.u32 %word, %word, 1; setp.lt.u32 %again, %word, 800; @%again bra LOOP;"
            " mov.u64 %address, 16; st.volatile.global.u32 [%address], 1;",
}
KERNEL = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry faults(.param .u64 memory) {
  .reg .pred %again;
  .reg .u64 %address;
  .reg .u32 %word;
  FAULT
  ret;
}
"""


def main():
    image = KERNEL.replace("FAULT", FAULTS[sys.argv[1]]).encode()
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    memory, word = ctypes.c_uint64(), ctypes.c_uint32()
    steps = (("cuInit", 0), ("cuDeviceGet", ctypes.byref(device), 0), ("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0),
             ("cuCtxSetCurrent", context), ("cuModuleLoadData", ctypes.byref(module), image),
             ("cuModuleGetFunction", ctypes.byref(function), module, b"faults"), ("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(256)))
    for name, *arguments in steps:
        result = getattr(driver, name)(*arguments)
        if result != 0:
            raise SystemExit(f"{name}: error {result}")
    one = ctypes.c_uint(1)
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(memory), ctypes.c_void_p))
    driver.cuLaunchKernel(function, one, one, one, one, one, one, ctypes.c_uint(0), None, parameters, None)
    answers = {"synchronize": driver.cuCtxSynchronize(), "query": driver.cuStreamQuery(None),
               "copy": driver.cuMemcpyDtoH_v2(ctypes.byref(word), memory, ctypes.c_size_t(4)),
               "allocate": driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4))}
    time.sleep(1)
    answers["again"] = driver.cuCtxSynchronize()
    print(", ".join(f"{what} {answer}" for what, answer in answers.items()))


if __name__ == "__main__":
    main()
