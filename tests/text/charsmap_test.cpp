// Character maps built by hand in the layout of SentencePiece (a double array of 32-bit units, then the
// replacements).
#include "text/unicode/charsmap.h"

#include <gtest/gtest.h>

#include <cstring>

namespace heed {
namespace {

// A map of single ASCII characters. The unit of a character c is at 256 ^ c: its label, the mark that a value
// follows, and the distance (in bits 10 and up) to the unit of the value, which is where its replacement
// begins.
std::string map_of(const std::vector<std::pair<char, std::string>>& entries) {
  std::vector<std::uint32_t> units(512, 0);
  units[0] = 256u << 10;
  std::string replacements;
  std::uint32_t value_at = 1;
  for (const auto& [from, to] : entries) {
    const std::uint32_t label = static_cast<unsigned char>(from), at = 256u ^ label;
    units[at] = label | 1u << 8 | (at ^ value_at) << 10;
    units[value_at++] = static_cast<std::uint32_t>(replacements.size());
    replacements += to + '\0';
  }
  const auto size = static_cast<std::uint32_t>(4 * units.size());
  std::string bytes(4 + size, '\0');
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, units.data(), size);
  return bytes + replacements;
}

NormalizedText mapped(const std::string& map, std::string_view text) {
  NormalizedText result(text, 0, nullptr);
  Charsmap::parse(map).value().apply(result);
  return result;
}

TEST(Charsmap, ReplacesCharactersAndRemembersWhereTheyCameFrom) {
  const std::string map = map_of({{'x', ""}, {'y', "zz"}, {'A', "a"}});
  EXPECT_EQ(mapped(map, "axyb").text(), "azzb");
  EXPECT_EQ(mapped(map, "AAbc").text(), "aabc");
  EXPECT_EQ(mapped(map, "").text(), "");
  EXPECT_EQ(mapped(map, "\u00e9y\u4e2d").text(), "\u00e9zz\u4e2d");
  const NormalizedText text = mapped(map, "byc");  // b, z and z from y, c
  for (const auto& [at, origin] : {std::pair<std::size_t, std::uint32_t>{0, 0}, {1, 1}, {2, 1}, {3, 2}})
    EXPECT_EQ(text.origin_of(at), origin) << at;
}

TEST(Charsmap, LeavesTextWithoutEntriesAlone) {
  EXPECT_EQ(mapped(map_of({{'x', "y"}}), "abc \u00df \U0001F600").text(), "abc \u00df \U0001F600");
}

TEST(Charsmap, RefusesBytesThatAreNoMap) {
  for (const std::string& bytes : {std::string(), std::string("abc"), std::string(4, '\0'),
                                   std::string("\xFF\xFF\xFF\xFF") + "0123", map_of({}).substr(0, 100)})
    EXPECT_FALSE(Charsmap::parse(bytes));
}

TEST(Charsmap, AnEntryThatPointsOutsideTheMapReplacesNothing) {
  std::string map = map_of({{'x', "y"}});
  const std::uint32_t far = 0x7FFFFFF0;
  std::memcpy(map.data() + 4 + 4, &far, 4);  // unit 1: where the replacement begins
  EXPECT_EQ(mapped(map, "axb").text(), "axb");
}

}  // namespace
}  // namespace heed
