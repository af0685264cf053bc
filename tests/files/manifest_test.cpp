// The checksums of a complete folder. Expected values: RFC 3720, appendix B.4, and the check value of the
// catalog of parametrized CRC algorithms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "files/checksum.h"
#include "heed/files/file.h"
#include "temporary_folder.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

std::uint32_t crc(const std::string& text) {
  return files::crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

TEST(Checksum, EqualsPublishedValues) {
  EXPECT_EQ(crc(""), 0u);
  EXPECT_EQ(crc("123456789"), 0xe3069283u);
  EXPECT_EQ(crc(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(crc(ascending), 0x46dd794eu);
}

TEST(Checksum, OfAFileOfManyParts) {
  const TemporaryFolder folder;
  std::string text(700001, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 2654435761u >> 11);
  spill(folder / "file", text);
  EXPECT_EQ(files::sum_of_file(folder / "file"), (files::FileSum{text.size(), crc(text)}));
  EXPECT_THAT(error_of([&] { files::sum_of_file(folder / "none"); }),
              HasSubstr("none: cannot be read: No such file"));
  EXPECT_THAT(error_of([&] { files::sum_of_file(folder.path()); }), HasSubstr("expected a regular file"));
}

TEST(Manifest, FindsEveryChange) {
  const TemporaryFolder folder;
  const auto step = folder / "step";
  {
    AtomicDirectory directory(step);
    spill(directory.path() / "weights", "123456789");
    std::filesystem::create_directory(directory.path() / "inner");
    spill(directory.path() / "inner" / "a b", "");
    directory.commit();
  }
  EXPECT_THAT(slurp(step / "complete"), HasSubstr("\n0 00000000 inner/a b\n9 e3069283 weights\n"));
  EXPECT_EQ(error_of([&] { verify_directory(step); }), "");
  spill(step / "notes", "the user's own");
  EXPECT_EQ(error_of([&] { verify_directory(step); }), "");
  spill(step / "weights", "123456788");
  EXPECT_THAT(error_of([&] { verify_directory(step); }),
              HasSubstr("step/weights: expected the 9 bytes of CRC-32C e3069283"));
  std::filesystem::remove(step / "weights");
  EXPECT_THAT(error_of([&] { verify_directory(step); }),
              HasSubstr("step/weights: cannot be read: No such file"));
}

TEST(Manifest, IsReadWithCare) {
  const TemporaryFolder folder;
  const auto error_with = [&](const std::string& text) {
    spill(folder / "complete", text);
    return error_of([&] { verify_directory(folder.path()); });
  };
  spill(folder / "a", "123456789");
  const std::string first = "Every file of this folder was written before this one. Bytes, CRC-32C, name:\n";
  EXPECT_EQ(error_with("Every file of this folder was written before this one.\n"),
            "");  // written by earlier versions
  EXPECT_EQ(error_with(first + "9 e3069283 a\n"), "");
  EXPECT_THAT(error_with(""), HasSubstr("complete: expected a list of checksums"));
  for (const char* line : {"", "9", "9 e3069283", "9 e3069283 ", "-9 e3069283 a", "9 g3069283 a",
                           "9 e3069283 ../a", "9 e3069283 /etc/hostname", "9 1e3069283 a"}) {
    EXPECT_THAT(error_with(first + line + "\n9 e3069283 a\n"), HasSubstr("complete:2: expected length"))
        << line;
  }
}

}  // namespace
}  // namespace heed
