// The header of a safetensors file: its dtypes, and a reader that makes every check of the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/dtype.h"
#include "heed/io/safetensors.h"

namespace heed::io {

constexpr std::string_view kMetadataName = "__metadata__";

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON `text` of the header of a file with `data_bytes` bytes of data. Throws Error naming
/// `where`.
SafetensorsHeader read_safetensors_header(const std::string& where, std::string_view text,
                                          std::uint64_t data_bytes);

/// Returns heed's dtype for a dtype of the format, or nullopt if heed does not support it.
std::optional<DType> dtype_of_format(std::string_view name);
std::string_view format_name(DType dtype);

// The whole file.

/// Calls `write` with the parts of the file that save_safetensors() writes. Messages begin with `where`.
void write_safetensors(const std::string& where, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(std::span<const std::byte>)>& write);

}  // namespace heed::io
