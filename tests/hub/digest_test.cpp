// Compares digests with those of git hash-object and sha256sum.
#include "hub/cache.h"

#include <gtest/gtest.h>

namespace heed::hub {
namespace {

std::string pattern(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>((i * i + i / 7) % 251);
  return bytes;
}

struct Expected {
  int bytes;  // around the sizes at which the padding changes
  const char *git, *sha256;
};
constexpr Expected kExpected[] = {
    {0, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {3, "a79b1fb03b0c497c6c6e71fa5ecf20773af7d0a5",
     "3f078d3b7e22c8944e5561909a236ae48b48a7ea42f28dd861c22b6f64d7e97b"},
    {55, "1607819499214e6ddf5ef18fa37fd62a0a33c005",
     "52d39df6697f856c6c973677200753133a852b7cb4b9e2c702f09c861c830163"},
    {56, "34eaf7ba48180ed2ffd184219e437ff966deea01",
     "1866397ef9cd5f80d5bd234be89fbfee9fd2da1f99acc2ab1f7c7d15d26cd81d"},
    {63, "0116c0890d0feac412285d3589d189db6e33ffb1",
     "331e97f03fc08cc94209f8428ff270ec353bc036aa634f7a768fb1dd47dd2c46"},
    {64, "ff0f3b7999788fc86ed682f44590769148564a48",
     "bb2a3f1aabbfa8c030e3ca7d52c9f1552cda622c5757f0e5a039e58a61b4cf8c"},
    {65, "9b37efbaceb7afd48bf23da11a13c3fdbee1b19b",
     "4852a0c15db3f0fd7e4d5dc7a3f1e98e0251baee73092a651de8f6064f13729b"},
    {119, "da17c221d52436373d39871f3899ea38009cb87d",
     "0fe669e29b9066befaf7ea47324dc3b2b3d74fc1a93765f4dd6eb5b39b910e69"},
    {120, "34676673214cd6971455110e507061242ef61e79",
     "32b0ba6e6dfc11e0255423e8c8fb95a6a1a1227bbe3675fe55695050c3fb58bc"},
    {1000, "e5a798be87f918aa881dded71ea2d10b4413bbb1",
     "538598f63668de8854ac1110196abe75ff5743e8f434d5c78b4fded44d73d141"},
};

// The digest that the bytes have, added in steps, whatever the ETag says.
std::string digest_of(const std::string& etag, const std::string& bytes, std::size_t step) {
  EtagCheck check(std::string(etag.size(), '0'), bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += step)
    check.update(std::string_view(bytes).substr(at, step));
  return check.digest();
}

TEST(Digest, EqualsOtherPrograms) {
  for (const Expected& one : kExpected) {
    for (const std::size_t step : {1u, 7u, 63u, 64u, 65u, 1000u}) {
      EXPECT_EQ(digest_of(one.git, pattern(one.bytes), step), one.git) << one.bytes << " by " << step;
      EXPECT_EQ(digest_of(one.sha256, pattern(one.bytes), step), one.sha256) << one.bytes << " by " << step;
    }
  }
}

TEST(Digest, AnEtagSaysWhichHashItIs) {
  EtagCheck git("dc1fb7b6703fe03317c1a080b523bf475f3d4818", 23);
  git.update("{\"model_type\": \"bert\"}\n");
  EXPECT_EQ(git.digest(), "dc1fb7b6703fe03317c1a080b523bf475f3d4818");
  EtagCheck lfs("538ef51710c8aa1392e476baaf07b3ba47b1b5b8ce2122538ef51710c8aa1392", 1000);
  lfs.update(pattern(1000));
  EXPECT_EQ(lfs.digest(), "538598f63668de8854ac1110196abe75ff5743e8f434d5c78b4fded44d73d141");
  EtagCheck other("33a64df5", 3);  // from a server with its own kind of ETags
  other.update("abc");
  EXPECT_EQ(other.digest(), "33a64df5");
}

}  // namespace
}  // namespace heed::hub
