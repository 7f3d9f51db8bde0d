// The names and descriptions of results.
#include "entry.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

using namespace lgsim;

namespace {

struct Name {
  int result;
  const char *name;
  const char *text;
};

const Name kNames[] = {
#define RESULT(name, text) {name, #name, text},
#include "results.inc"
#undef RESULT
};

const Name *find(int result) {
  const Name *end = kNames + sizeof kNames / sizeof *kNames;
  const Name *found = std::find_if(kNames, end, [&](const Name &n) { return n.result == result; });
  return found == end ? nullptr : found;
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char **pStr) {
  ENTER_BEFORE_INIT();
  if (!pStr) return CUDA_ERROR_INVALID_VALUE;
  const Name *found = find(error);
  *pStr = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult error, const char **pStr) {
  ENTER_BEFORE_INIT();
  if (!pStr) return CUDA_ERROR_INVALID_VALUE;
  const Name *found = find(error);
  *pStr = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
