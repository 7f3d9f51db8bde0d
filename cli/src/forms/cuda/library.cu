// The kernels of a library are loaded by their first use.
inline CUlibrary library(const Names& kernels, bool in_context) {
  CUlibrary made;
  CUmodule in_it;
  // The driver may read the text later.
  CK(cuLibraryLoadData(&made, (new std::string(code(kernels, 0)))->c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  if (in_context) CK(cuLibraryGetModule(&in_it, made));
  return made;
}
inline CUfunction kernel(CUlibrary of, const char* name, bool loaded) {
  CUkernel made;
  CUfunction of_it;
  CK(cuLibraryGetKernel(&made, of, name));
  if (loaded) CK(cuKernelGetFunction(&of_it, made));
  return reinterpret_cast<CUfunction>(made);
}
