// The tile products of tile-inl.h, compiled once for attention and the double GEMM.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
HEED_TILE_PRODUCTS(, float);
HEED_TILE_PRODUCTS(, double);
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
