// The bytes of a safetensors file, part by part.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "heed/io/safetensors.h"

namespace heed::io {

/// Calls `write` with the parts of the file that save_safetensors() writes. Messages begin with `where`.
void write_safetensors(const std::string& where, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(std::span<const std::byte>)>& write);

}  // namespace heed::io
