// The alphabet of byte-level BPE: a printable character for each byte, as in GPT-2.
#include "text/pipeline/byte_level.h"

namespace heed {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char16_t, 256> byte_characters() {
  std::array<char16_t, 256> characters{};
  char16_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<std::int16_t, 0x144> character_bytes() {
  std::array<std::int16_t, 0x144> bytes{};
  for (auto& byte : bytes) byte = -1;
  const auto characters = byte_characters();
  for (std::size_t byte = 0; byte < 256; ++byte) bytes[characters[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr auto kCharacterBytes = character_bytes();

}  // namespace

const std::array<char16_t, 256> kByteCharacters = byte_characters();

int byte_of_character(char32_t c) { return c < kCharacterBytes.size() ? kCharacterBytes[c] : -1; }

}  // namespace heed
