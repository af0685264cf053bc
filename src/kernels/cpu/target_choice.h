// What HEED_TARGET leaves of the processor's instruction sets (kernels/machine.h).
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Instructions for products of bytes, better ones last: those of the target (maddubs; long products of
/// NEON); four signed bytes (ARM's sdot); four unsigned by signed bytes (VNNI's vpdpbusd, ARM's usdot).
enum class ByteProducts : std::uint8_t { base, signed_fours, fours };

namespace detail {

/// Highway's targets, as bits. Throws Error as target_name() does.
std::int64_t allowed_targets();
/// What kernels may use that Highway's targets do not name: products of bytes, and AMX's tiles.
ByteProducts allowed_products();
bool allows_amx();

}  // namespace detail
}  // namespace heed::kernels
