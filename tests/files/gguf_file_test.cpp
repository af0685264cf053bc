#include "files/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error.h"
#include "reference/gguf_writer.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GgufFiles : public ::testing::Test {
 protected:
  GgufFile open(const std::string& bytes, const char* name = "x.gguf") {
    spill(folder_ / name, bytes);
    return GgufFile::open(folder_ / name);
  }
  std::string error(const std::string& bytes) {
    return error_of([&] { open(bytes); });
  }
  TemporaryFolder folder_;
};

TEST_F(GgufFiles, ReadsMetadataByType) {
  GgufWriter w;
  w.integer("a.count", 7).number("a.ratio", 0.5F).boolean("a.flag", true).string("a.name", "llama");
  w.value("a.negative", 11, GgufWriter::raw<std::int64_t>(-3)).value("a.byte", 0, "\x09");
  w.strings("a.words", {"one", "", "two"})
      .array<std::int32_t>("a.ids", 5, {-1, 4})
      .array<float>("a.scores", 6, {0.25F});
  w.value("a.nested", 9,
          GgufWriter::raw<std::uint32_t>(9) + GgufWriter::raw<std::uint64_t>(1) +
              GgufWriter::raw<std::uint32_t>(4) + GgufWriter::raw<std::uint64_t>(1) +
              GgufWriter::raw<std::uint32_t>(5));
  w.array<std::uint8_t>("a.map", 0, {1, 2});
  for (const std::uint32_t version : {2, 3}) {
    const GgufFile file = open(w.bytes(version));
    EXPECT_EQ(file.integer("a.count"), 7);
    EXPECT_EQ(file.integer("a.negative"), -3);
    EXPECT_EQ(file.integer("a.byte"), 9);
    EXPECT_EQ(file.number("a.ratio"), 0.5);
    EXPECT_EQ(file.number("a.count"), 7);
    EXPECT_EQ(file.boolean("a.flag"), true);
    EXPECT_EQ(file.string("a.name"), "llama");
    EXPECT_EQ(file.integer("a.none"), std::nullopt);
    EXPECT_THAT(file.strings("a.words"), ElementsAre("one", "", "two"));
    EXPECT_THAT(file.integers("a.ids"), ElementsAre(-1, 4));
    EXPECT_THAT(file.integers("a.count"), ElementsAre(7));
    EXPECT_THAT(file.numbers("a.scores"), ElementsAre(0.25));
    EXPECT_THAT(file.strings("a.none"), IsEmpty());
    EXPECT_EQ(file.bytes("a.map"), "\x01\x02");
    EXPECT_ERROR(file.integer("a.name"), "x.gguf: a.name: expected an integer, got a string");
    EXPECT_ERROR(file.integer("a.ids"), "a.ids: expected an integer, got an array of 2");
    EXPECT_ERROR(file.integers("a.nested"), "a.nested: expected integers, got arrays in an array");
    EXPECT_ERROR(file.boolean("a.count"), "a.count: expected true or false, got an integer");
  }
}

TEST_F(GgufFiles, ReadsTensors) {
  GgufWriter w;
  w.tensor("token_embd.weight", {3, 2}, {1, 2, 3, 4, 5, 6}).tensor("q", {32, 2}, 8, std::string(68, 'q'));
  const GgufFile file = open(w.bytes());
  ASSERT_NE(file.find("q"), nullptr);
  EXPECT_EQ(file.find("none"), nullptr);
  const GgufTensor& table = *file.find("token_embd.weight");
  EXPECT_THAT(table.shape, ElementsAre(2, 3));
  EXPECT_EQ(table.layout.name, "F32");
  float second;
  std::memcpy(&second, table.data + 4, sizeof second);
  EXPECT_EQ(second, 2);
  EXPECT_EQ(file.find("q")->layout.name, "Q8_0");
  EXPECT_EQ(file.find("q")->bytes, 68u);
}

TEST_F(GgufFiles, OpensAllFilesOfAModel) {
  const auto shard = [](std::uint32_t number, const char* tensor) {
    GgufWriter w;
    if (number == 0) w.string("general.architecture", "llama").integer("split.tensors.count", 2);
    w.value("split.no", 2, GgufWriter::raw(static_cast<std::uint16_t>(number)));
    w.value("split.count", 2, GgufWriter::raw(std::uint16_t{2}));
    return w.tensor(tensor, {2}, {1, 2}).bytes();
  };
  spill(folder_ / "m-00001-of-00002.gguf", shard(0, "a"));
  EXPECT_ERROR(GgufFile::open(folder_ / "m-00001-of-00002.gguf"), "m-00002-of-00002.gguf: not found");
  spill(folder_ / "m-00002-of-00002.gguf", shard(1, "b"));
  for (const char* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    const GgufFile file = GgufFile::open(folder_ / name);
    EXPECT_EQ(file.files().size(), 2u);
    EXPECT_NE(file.find("a"), nullptr);
    EXPECT_NE(file.find("b"), nullptr);
    EXPECT_EQ(file.string("general.architecture"), "llama");
  }
  spill(folder_ / "m-00002-of-00002.gguf", shard(0, "b"));
  EXPECT_ERROR(GgufFile::open(folder_ / "m-00001-of-00002.gguf"), "expected file 2 of 2, got 1 of 2");
  spill(folder_ / "m-00002-of-00002.gguf", shard(1, "a"));
  EXPECT_ERROR(GgufFile::open(folder_ / "m-00001-of-00002.gguf"),
               "a: expected every tensor once, got it twice");
  EXPECT_ERROR(open(shard(0, "a"), "renamed.gguf"), "expected file 1 of 1, got 1 of 2");
}

TEST_F(GgufFiles, RefusesWhatIsNoFileOfTheFormat) {
  EXPECT_THAT(error("GGU"), HasSubstr("x.gguf: expected a GGUF file, which begins with the letters GGUF"));
  EXPECT_THAT(error("GGUF\x03"), HasSubstr("the header ends beyond the file of 5 bytes"));
  EXPECT_THAT(error(GgufWriter().bytes(1)), HasSubstr("expected version 2 or 3 of GGUF, got 1"));
  EXPECT_THAT(error(std::string("GGUF\0\0\0\x03", 8) + std::string(16, '\0')),
              HasSubstr("expected a little-endian GGUF file, got a big-endian one"));
  EXPECT_THAT(error("GGUF" + GgufWriter::raw(3) + GgufWriter::raw(UINT64_MAX) + GgufWriter::raw(UINT64_MAX)),
              HasSubstr("expected a number of tensors that a file of 24 bytes can hold"));
}

TEST_F(GgufFiles, RefusesMetadataThatDoNotFit) {
  const auto with = [](std::uint32_t type, const std::string& bytes) {
    return GgufWriter().value("k", type, bytes).bytes();
  };
  EXPECT_THAT(error(with(13, "")), HasSubstr("k: expected a type of value from 0 to 12, got 13"));
  EXPECT_THAT(error(with(8, GgufWriter::raw(UINT64_MAX))), HasSubstr("the header ends beyond the file"));
  EXPECT_THAT(error(with(9, GgufWriter::raw<std::uint32_t>(8) + GgufWriter::raw(UINT64_MAX))),
              HasSubstr("k: expected an array within the file"));
  std::string deep;
  for (int i = 0; i < 8; ++i) deep += GgufWriter::raw<std::uint32_t>(9) + GgufWriter::raw<std::uint64_t>(1);
  EXPECT_THAT(error(with(9, deep)), HasSubstr("k: expected arrays nested at most 4 deep"));
  EXPECT_THAT(error(GgufWriter().integer("k", 1).integer("k", 2).bytes()),
              HasSubstr("k: expected every key once"));
  EXPECT_THAT(error(GgufWriter().integer("\xFF", 1).bytes()),
              HasSubstr("expected the name of a value in UTF-8"));
  EXPECT_THAT(error(GgufWriter().integer("general.alignment", 24).bytes()),
              HasSubstr("general.alignment: expected a power of two"));
}

TEST_F(GgufFiles, RefusesTensorsThatDoNotFit) {
  const std::string data(64, 'd');
  const auto with = [&](const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                        std::uint64_t offset = 0) {
    return GgufWriter().tensor_at("t", sizes, type, offset, data).bytes();
  };
  EXPECT_THAT(error(with({2, 2, 2, 2, 2}, 0)), HasSubstr("t: expected 1 to 4 axes, got 5"));
  EXPECT_THAT(error(with({0}, 0)), HasSubstr("t: expected a size that memory can have, got 0"));
  EXPECT_THAT(error(with({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0)),
              HasSubstr("t: expected a size"));
  EXPECT_THAT(error(with({33}, 8)),
              HasSubstr("t: expected rows of whole blocks of 32 numbers, got 33 (Q8_0)"));
  EXPECT_THAT(error(with({256}, 16)), HasSubstr("t: expected numbers of a type among F32 F16"));
  EXPECT_THAT(error(with({256}, 16)), HasSubstr("got IQ2_XXS"));
  EXPECT_THAT(error(with({2}, 99)), HasSubstr("got type 99"));
  EXPECT_THAT(error(with({17}, 0)), HasSubstr("t: expected 68 bytes from byte 0 of the data, got 64 bytes"));
  EXPECT_THAT(error(with({2}, 0, 8)), HasSubstr("t: expected an offset that is a multiple of 32, got 8"));
  EXPECT_THAT(error(with({2}, 0, UINT64_MAX - 31)), HasSubstr("t: expected 8 bytes from byte"));
  GgufWriter w;
  w.tensor("a", {16}, std::vector<float>(16)).tensor_at("b", {2}, 0, 32, "");
  EXPECT_THAT(error(w.bytes()), HasSubstr("b: expected data of its own"));
  EXPECT_THAT(error(GgufWriter().tensor("a", {2}, {1, 2}).tensor("a", {2}, {1, 2}).bytes()),
              HasSubstr("a: expected every tensor once, got it twice"));
}

TEST_F(GgufFiles, AreKnownByTheirFirstBytesOrTheirName) {
  spill(folder_ / "renamed", GgufWriter().bytes());
  spill(folder_ / "empty.gguf", "");
  spill(folder_ / "other.bin", "GGML");
  EXPECT_TRUE(is_gguf(folder_ / "renamed"));
  EXPECT_TRUE(is_gguf(folder_ / "empty.gguf"));
  EXPECT_FALSE(is_gguf(folder_ / "other.bin"));
  EXPECT_FALSE(is_gguf(folder_.path()));
}

}  // namespace
}  // namespace heed
