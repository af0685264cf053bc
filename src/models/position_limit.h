// The most positions for which tables are made before a file is looked at.
#pragma once

#include <cstdint>

namespace heed {

inline constexpr std::int64_t kMostPositions = 65536;

}  // namespace heed
