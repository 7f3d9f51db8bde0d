// Texture references, which the header still declares.
#include "atlas.hpp"

namespace atlas {
namespace {

CUDA_ARRAY_DESCRIPTOR *pitched() {
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = shape.Height = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  return kept(shape);
}

void with_array(Bench &b) {
  b.new_texture();
  b.new_array();
}

void of_array(Bench &b) {
  with_array(b);
  must(cuTexRefSetArray(b.texture, b.array, CU_TRSA_OVERRIDE_FORMAT));
}

void of_memory(Bench &b) {
  b.new_texture();
  must(cuTexRefSetFormat(b.texture, CU_AD_FORMAT_FLOAT, 1));
  must(cuTexRefSetAddress(out<size_t>(), b.texture, b.buffer, k1M));
}

void with_mipmapped(Bench &b) {
  b.new_texture();
  b.new_mipmapped();
}

void of_mipmapped(Bench &b) {
  with_mipmapped(b);
  must(cuTexRefSetMipmappedArray(b.texture, b.mipmapped, CU_TRSA_OVERRIDE_FORMAT));
}

}  // namespace

void Bench::new_texture() { must(cuTexRefCreate(&texture)); }

void texture_calls() {
  CALL(cuTexRefCreate, "-", NOTHING, cuTexRefCreate(&b.texture));
  CALL(cuTexRefDestroy, "-", b.new_texture(), cuTexRefDestroy(b.texture));
  CALL(cuTexRefSetArray, "-", with_array(b), cuTexRefSetArray(b.texture, b.array, CU_TRSA_OVERRIDE_FORMAT));
  CALL(cuTexRefSetMipmappedArray, "-", with_mipmapped(b), cuTexRefSetMipmappedArray(b.texture, b.mipmapped, CU_TRSA_OVERRIDE_FORMAT));
  CALL(cuTexRefSetAddress, "-", b.new_texture(), cuTexRefSetAddress(out<size_t>(), b.texture, b.buffer, k1M));
  CALL(cuTexRefSetAddress2D, "-", b.new_texture(), cuTexRefSetAddress2D(b.texture, pitched(), b.buffer, 512));
  CALL(cuTexRefSetFormat, "-", b.new_texture(), cuTexRefSetFormat(b.texture, CU_AD_FORMAT_FLOAT, 1));
  CALL(cuTexRefSetAddressMode, "-", b.new_texture(), cuTexRefSetAddressMode(b.texture, 0, CU_TR_ADDRESS_MODE_CLAMP));
  CALL(cuTexRefSetFilterMode, "-", b.new_texture(), cuTexRefSetFilterMode(b.texture, CU_TR_FILTER_MODE_POINT));
  CALL(cuTexRefSetMipmapFilterMode, "-", b.new_texture(), cuTexRefSetMipmapFilterMode(b.texture, CU_TR_FILTER_MODE_POINT));
  CALL(cuTexRefSetMipmapLevelBias, "-", b.new_texture(), cuTexRefSetMipmapLevelBias(b.texture, 0));
  CALL(cuTexRefSetMipmapLevelClamp, "-", b.new_texture(), cuTexRefSetMipmapLevelClamp(b.texture, 0, 1));
  CALL(cuTexRefSetMaxAnisotropy, "-", b.new_texture(), cuTexRefSetMaxAnisotropy(b.texture, 1));
  CALL(cuTexRefSetBorderColor, "-", b.new_texture(), cuTexRefSetBorderColor(b.texture, out<float>()));
  CALL(cuTexRefSetFlags, "-", b.new_texture(), cuTexRefSetFlags(b.texture, 0));
  CALL(cuTexRefGetAddress, "-", of_memory(b), cuTexRefGetAddress(out<CUdeviceptr>(), b.texture));
  CALL(cuTexRefGetArray, "-", of_array(b), cuTexRefGetArray(out<CUarray>(), b.texture));
  CALL(cuTexRefGetMipmappedArray, "-", of_mipmapped(b), cuTexRefGetMipmappedArray(out<CUmipmappedArray>(), b.texture));
  CALL(cuTexRefGetAddressMode, "-", b.new_texture(), cuTexRefGetAddressMode(out<CUaddress_mode>(), b.texture, 0));
  CALL(cuTexRefGetFilterMode, "-", b.new_texture(), cuTexRefGetFilterMode(out<CUfilter_mode>(), b.texture));
  CALL(cuTexRefGetFormat, "-", b.new_texture(), cuTexRefGetFormat(out<CUarray_format>(), out<int>(), b.texture));
  CALL(cuTexRefGetMipmapFilterMode, "-", b.new_texture(), cuTexRefGetMipmapFilterMode(out<CUfilter_mode>(), b.texture));
  CALL(cuTexRefGetMipmapLevelBias, "-", b.new_texture(), cuTexRefGetMipmapLevelBias(out<float>(), b.texture));
  CALL(cuTexRefGetMipmapLevelClamp, "-", b.new_texture(), cuTexRefGetMipmapLevelClamp(out<float>(), out<float>() + 1, b.texture));
  CALL(cuTexRefGetMaxAnisotropy, "-", b.new_texture(), cuTexRefGetMaxAnisotropy(out<int>(), b.texture));
  CALL(cuTexRefGetBorderColor, "-", b.new_texture(), cuTexRefGetBorderColor(out<float>(), b.texture));
  CALL(cuTexRefGetFlags, "-", b.new_texture(), cuTexRefGetFlags(out<unsigned>(), b.texture));
}

}  // namespace atlas
