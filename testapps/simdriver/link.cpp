// cuLink*: PTX comes in, is compiled, and goes out for a load, which compiles it again. Nothing here waits for the device (measured).
#include "entry.hpp"
#include "loading.hpp"

using namespace lgsim;

namespace {

struct Link : Object {
  static constexpr Type kType = Type::link;
  Link() : Object(kType) {}
  std::string text;  // of all that was added
};
using LinkRef = std::shared_ptr<Link>;

CUresult create(CUlinkState *result) {
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  NEED_CONTEXT(context);
  const LinkRef link = std::make_shared<Link>();
  registry().add(link);
  *result = handle_of<CUlinkState>(link);
  return CUDA_SUCCESS;
}

CUresult add(CUlinkState state, CUjitInputType type, const void *data, const char *path) {
  const LinkRef link = registry().find<Link>(state);
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  if (type != CU_JIT_INPUT_PTX) return CUDA_ERROR_NOT_SUPPORTED;
  ImageRef image;
  CUresult r = path ? copy_image_file(path, image) : copy_image(data, image);
  if (r == CUDA_SUCCESS && !image->is_ptx) r = CUDA_ERROR_INVALID_PTX;
  if (r == CUDA_SUCCESS) r = open_image(*image);
  if (r == CUDA_SUCCESS) link->text += image->bytes + "\n";
  return r;
}

}  // namespace

CUresult cuLinkCreate(unsigned int, CUjit_option *, void **, CUlinkState *stateOut) {
  ENTER();
  return create(stateOut);
}
CUresult cuLinkCreate_v2(unsigned int, CUjit_option *, void **, CUlinkState *stateOut) {
  ENTER();
  return create(stateOut);
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t, const char *, unsigned int, CUjit_option *, void **) {
  ENTER();
  return add(state, type, data, nullptr);
}
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t, const char *, unsigned int, CUjit_option *, void **) {
  ENTER();
  return add(state, type, data, nullptr);
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int, CUjit_option *, void **) {
  ENTER();
  return path ? add(state, type, nullptr, path) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int, CUjit_option *, void **) {
  ENTER();
  return path ? add(state, type, nullptr, path) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
  ENTER();
  if (!cubinOut) return CUDA_ERROR_INVALID_VALUE;
  const LinkRef link = registry().find<Link>(state);
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  *cubinOut = link->text.data();
  if (sizeOut) *sizeOut = link->text.size() + 1;
  return CUDA_SUCCESS;
}
CUresult cuLinkDestroy(CUlinkState state) {
  ENTER();
  return registry().remove<Link>(state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
