// Base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heed {

std::string encode_base64(std::string_view bytes);
/// Decodes base64 text. Returns nullopt if it is malformed.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace heed
