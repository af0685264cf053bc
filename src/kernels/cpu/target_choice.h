// What HEED_TARGET leaves of the processor's instruction sets (kernels/machine.h).
#pragma once

#include <cstdint>

namespace heed::kernels::detail {

/// Highway's targets, as bits. Throws Error as target_name() does.
std::int64_t allowed_targets();
/// Whether kernels may use what Highway's targets do not name: VNNI's products of bytes, AMX's tiles.
bool allows_vnni();
bool allows_amx();

}  // namespace heed::kernels::detail
