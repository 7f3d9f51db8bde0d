// Arrays, and textures and surfaces as objects.
#include "atlas.hpp"

namespace atlas {
namespace {

CUDA_ARRAY_DESCRIPTOR *plain() {
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = shape.Height = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  return kept(shape);
}

CUDA_ARRAY3D_DESCRIPTOR *shape_3d(unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = shape.Height = flags & CUDA_ARRAY3D_SPARSE ? 4096 : 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = flags;
  return kept(shape);
}

void sparse(Bench &b) { must(cuArray3DCreate(&b.array, shape_3d(CUDA_ARRAY3D_SPARSE))); }

void deferred(Bench &b) { must(cuArray3DCreate(&b.array, shape_3d(CUDA_ARRAY3D_DEFERRED_MAPPING))); }

void planar(Bench &b) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = shape.Height = 64;
  shape.Format = CU_AD_FORMAT_NV12;
  shape.NumChannels = 3;
  must(cuArray3DCreate(&b.array, &shape));
}

void mipmapped(Bench &b, unsigned flags) { must(cuMipmappedArrayCreate(&b.mipmapped, shape_3d(flags), 2)); }

CUDA_RESOURCE_DESC *resource(Bench &b) {
  CUDA_RESOURCE_DESC d{};
  d.resType = CU_RESOURCE_TYPE_ARRAY;
  d.res.array.hArray = b.array;
  return kept(d);
}

CUDA_TEXTURE_DESC *texture() { return kept(CUDA_TEXTURE_DESC{}); }

void texture_object(Bench &b) {
  b.new_array();
  must(cuTexObjectCreate(out<CUtexObject>(), resource(b), texture(), nullptr));
}

void texture_object_with_view(Bench &b) {
  b.new_array();
  CUDA_RESOURCE_VIEW_DESC view{};
  view.format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
  view.width = view.height = 64;
  must(cuTexObjectCreate(out<CUtexObject>(), resource(b), texture(), &view));
}

void surface_array(Bench &b) { must(cuArray3DCreate(&b.array, shape_3d(CUDA_ARRAY3D_SURFACE_LDST))); }

void surface_object(Bench &b) {
  surface_array(b);
  must(cuSurfObjectCreate(out<CUsurfObject>(), resource(b)));
}

}  // namespace

void array_calls() {
  CALL_ONCE(cuArrayCreate, "-", NOTHING, cuArrayCreate(&b.array, plain()));
  CALL(cuArrayGetDescriptor, "-", b.new_array(), cuArrayGetDescriptor(out<CUDA_ARRAY_DESCRIPTOR>(), b.array));
  CALL(cuArrayGetSparseProperties, "-", sparse(b), cuArrayGetSparseProperties(out<CUDA_ARRAY_SPARSE_PROPERTIES>(), b.array));
  CALL(cuArrayGetMemoryRequirements, "-", deferred(b),
       cuArrayGetMemoryRequirements(out<CUDA_ARRAY_MEMORY_REQUIREMENTS>(), b.array, b.device));
  CALL(cuArrayGetPlane, "-", planar(b), cuArrayGetPlane(out<CUarray>(), b.array, 0));
  CALL(cuArrayDestroy, "-", b.new_array(), cuArrayDestroy(b.array));
  CALL(cuArray3DCreate, "-", NOTHING, cuArray3DCreate(&b.array, shape_3d(0)));
  CALL(cuArray3DGetDescriptor, "-", b.new_array(), cuArray3DGetDescriptor(out<CUDA_ARRAY3D_DESCRIPTOR>(), b.array));
  CALL(cuMipmappedArrayCreate, "-", NOTHING, cuMipmappedArrayCreate(&b.mipmapped, shape_3d(0), 2));
  CALL(cuMipmappedArrayGetLevel, "-", b.new_mipmapped(), cuMipmappedArrayGetLevel(out<CUarray>(), b.mipmapped, 0));
  CALL(cuMipmappedArrayGetSparseProperties, "-", mipmapped(b, CUDA_ARRAY3D_SPARSE),
       cuMipmappedArrayGetSparseProperties(out<CUDA_ARRAY_SPARSE_PROPERTIES>(), b.mipmapped));
  CALL(cuMipmappedArrayGetMemoryRequirements, "-", mipmapped(b, CUDA_ARRAY3D_DEFERRED_MAPPING),
       cuMipmappedArrayGetMemoryRequirements(out<CUDA_ARRAY_MEMORY_REQUIREMENTS>(), b.mipmapped, b.device));
  CALL(cuMipmappedArrayDestroy, "-", b.new_mipmapped(), cuMipmappedArrayDestroy(b.mipmapped));

  CALL_ONCE(cuTexObjectCreate, "-", b.new_array(), cuTexObjectCreate(out<CUtexObject>(), resource(b), texture(), nullptr));
  CALL(cuTexObjectDestroy, "-", texture_object(b), cuTexObjectDestroy(*out<CUtexObject>()));
  CALL(cuTexObjectGetResourceDesc, "-", texture_object(b), cuTexObjectGetResourceDesc(out<CUDA_RESOURCE_DESC>(), *out<CUtexObject>()));
  CALL(cuTexObjectGetTextureDesc, "-", texture_object(b), cuTexObjectGetTextureDesc(out<CUDA_TEXTURE_DESC>(), *out<CUtexObject>()));
  CALL(cuTexObjectGetResourceViewDesc, "-", texture_object_with_view(b),
       cuTexObjectGetResourceViewDesc(out<CUDA_RESOURCE_VIEW_DESC>(), *out<CUtexObject>()));
  CALL(cuSurfObjectCreate, "-", surface_array(b), cuSurfObjectCreate(out<CUsurfObject>(), resource(b)));
  CALL(cuSurfObjectDestroy, "-", surface_object(b), cuSurfObjectDestroy(*out<CUsurfObject>()));
  CALL(cuSurfObjectGetResourceDesc, "-", surface_object(b), cuSurfObjectGetResourceDesc(out<CUDA_RESOURCE_DESC>(), *out<CUsurfObject>()));
}

}  // namespace atlas
