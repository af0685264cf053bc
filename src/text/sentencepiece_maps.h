// Checks the character maps of a SentencePiece model before the library uses them.
#pragma once

#include <string>
#include <string_view>

namespace heed {

/// Returns true if the bytes are fields of a protocol buffer. Throws Error naming `where` if one of the
/// model's character maps would lead the library, which follows them unchecked, outside the map or past the
/// 32 prefixes that it has room for.
bool check_character_maps(std::string_view serialized, const std::string& where);

}  // namespace heed
