// What HEED_TARGET leaves of the processor's instruction sets (kernels/machine.h).
#pragma once

#include <cstdint>

namespace heed::kernels {

/// Instructions for products of bytes, better ones last: those of the target (maddubs; long products of
/// NEON); four signed bytes (ARM's sdot); four unsigned by signed bytes (VNNI's vpdpbusd, ARM's usdot); the
/// latter and, for many rows, AMX's tiles.
enum class ByteProducts : std::uint8_t { base, signed_fours, fours, tiles };

namespace detail {

/// Highway's targets, as bits. Throws Error as target_name() does.
std::int64_t allowed_targets();
/// Whether the processor has AMX's tiles, for products of bytes and of bf16, the system lets this process use
/// them, and HEED_TARGET does.
bool has_amx();

}  // namespace detail
}  // namespace heed::kernels
