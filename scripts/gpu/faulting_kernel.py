"""Launches a kernel that writes to a bad address, and prints what the driver answers: `synchronize 700, allocate 700` on a card.

Must not know of the guard: it is an unmodified program.
"""

import ctypes

KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry writes_to_a_bad_address() {
  .reg .u64 %address;
  mov.u64 %address, 16;
  st.global.u32 [%address], 1;
  ret;
}
"""


def main():
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, module, function, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    steps = (("cuInit", 0), ("cuDeviceGet", ctypes.byref(device), 0), ("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0),
             ("cuCtxSetCurrent", context), ("cuModuleLoadData", ctypes.byref(module), KERNEL),
             ("cuModuleGetFunction", ctypes.byref(function), module, b"writes_to_a_bad_address"))
    for name, *arguments in steps:
        result = getattr(driver, name)(*arguments)
        if result != 0:
            raise SystemExit(f"{name}: error {result}")
    one = ctypes.c_uint(1)
    driver.cuLaunchKernel(function, one, one, one, one, one, one, ctypes.c_uint(0), None, None, None)
    answered = driver.cuCtxSynchronize()
    print(f"synchronize {answered}, allocate {driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4))}")


if __name__ == "__main__":
    main()
