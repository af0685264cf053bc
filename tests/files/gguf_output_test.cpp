// Written GGUF files, as the reader finds them.
#include "files/gguf_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "files/gguf_file.h"
#include "reference/gguf_writer.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;

TEST(GgufOutput, HasTheBytesOfTheFormat) {
  GgufValues values, more;
  values.text("general.architecture", "llama");
  values.integer("a.count", 7);
  values.number("a.ratio", 0.5);
  values.boolean("a.flag", true);
  more.texts("a.words", {"one", "", "two"});
  more.integers("a.ids", {-1, 4});
  more.numbers("a.scores", {0.25F});
  more.bytes("a.map", "\x01\x02");
  values.append(more);
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  const auto data = [&] {
    std::vector<std::byte> bytes(24);
    std::memcpy(bytes.data(), numbers.data(), 24);
    return bytes;
  };
  const TemporaryFolder folder;
  const std::vector<std::byte> blocks(18, std::byte{3});
  write_gguf(folder / "x.gguf", values,
             {{"w", BlockType::f32, {2, 3}, data}, {"v", BlockType::q4_0, {32}, [&] { return blocks; }}});
  GgufWriter expected;
  expected.string("general.architecture", "llama").integer("a.count", 7).number("a.ratio", 0.5F);
  expected.boolean("a.flag", true).strings("a.words", {"one", "", "two"});
  expected.array<std::int32_t>("a.ids", 5, {-1, 4}).array<float>("a.scores", 6, {0.25F});
  expected.array<std::uint8_t>("a.map", 0, {1, 2});
  expected.tensor("w", {3, 2}, numbers).tensor("v", {32}, 2, std::string(18, '\x03'));
  EXPECT_EQ(slurp(folder / "x.gguf"), expected.bytes());
  const GgufFile file = GgufFile::open(folder / "x.gguf");
  EXPECT_THAT(file.find("w")->shape, ElementsAre(2, 3));
  EXPECT_TRUE(values.has("a.map"));
  EXPECT_FALSE(values.has("a.none"));
}

}  // namespace
}  // namespace heed
