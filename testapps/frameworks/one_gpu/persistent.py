"""A persistent kernel, as another library of the process would have it: it spins on a stream of its own until a word is written.

It is a kernel of a module that is loaded through the driver, in the primary context, which all frameworks share.
"""
import ctypes

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin_until(.param .u64 flag)
{
    .reg .pred %p<2>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [flag];
again:
    ld.volatile.u32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
"""
NON_BLOCKING = 1
driver = ctypes.CDLL("libcuda.so.1")
context, module, function, stream, word = (ctypes.c_void_p() for _ in range(5))


def call(name, *arguments):
    result = getattr(driver, name)(*arguments)
    if result != 0:
        raise RuntimeError(f"{name}: error {result}")


call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(function), module, b"spin_until")
call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
call("cuMemHostAlloc", ctypes.byref(word), ctypes.c_size_t(4), 0)
# What the kernel spins on, for the kernel and for the host.
flag = ctypes.c_uint32.from_address(word.value)
flag.value = 0


def start():
    argument = ctypes.c_uint64(word.value)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)


def end():
    flag.value = 1


def wait_for_value(stream_handle, address, value):
    """Has a stream wait until the word at this address is at least this value."""
    call("cuStreamWaitValue32_v2", ctypes.c_void_p(stream_handle), ctypes.c_uint64(address), ctypes.c_uint32(value), 0)
