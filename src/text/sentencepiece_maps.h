// The character maps of a SentencePiece model, looked at before the library gets it.
#pragma once

#include <string>
#include <string_view>

namespace heed {

/// Whether the bytes are fields of a protocol buffer. Throws Error naming `where` when one of the model's
/// character maps would lead the library, which follows them unchecked, outside the map or past the 32
/// prefixes it has room for.
bool check_character_maps(std::string_view serialized, const std::string& where);

}  // namespace heed
