// Contexts of one device have no memory in common but the host's.
inline CUdeviceptr memory_of_all(size_t bytes) {
  void* host;
  CUdeviceptr made;
  CK(cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  CK(cuMemHostGetDevicePointer(&made, host, 0));
  CK(cuMemsetD8(made, 0, bytes));
  CK(cuCtxSynchronize());
  return made;
}
inline CUresult make_context(CUcontext* made, CUdevice device) {
#if CUDA_VERSION >= 13000
  return cuCtxCreate(made, nullptr, 0, device);
#else
  return cuCtxCreate(made, 0, device);
#endif
}
