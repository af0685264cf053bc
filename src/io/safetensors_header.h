// The header of a safetensors file: its dtypes, and a reader that makes every check of the format.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

}  // namespace heed::io
