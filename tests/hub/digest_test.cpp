// Compares hashes with those of sha1sum, sha256sum and git hash-object.
#include "hub/digest.h"

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
  const char *sha1, *sha256;
};
constexpr Expected kExpected[] = {
    {0, "da39a3ee5e6b4b0d3255bfef95601890afd80709",
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {3, "6ea32f4be3759f060923fa1c5bd4f04906df308d",
     "3f078d3b7e22c8944e5561909a236ae48b48a7ea42f28dd861c22b6f64d7e97b"},
    {55, "35f9d039ee0c3b7798902c5b9f36d4315547a929",
     "52d39df6697f856c6c973677200753133a852b7cb4b9e2c702f09c861c830163"},
    {56, "3a556edd682001015a8eb544f87cb61f357a0605",
     "1866397ef9cd5f80d5bd234be89fbfee9fd2da1f99acc2ab1f7c7d15d26cd81d"},
    {63, "b001be0f1db34c34cd171991a2974b6a3e6d1232",
     "331e97f03fc08cc94209f8428ff270ec353bc036aa634f7a768fb1dd47dd2c46"},
    {64, "047e1d0565e4d2d843af18ac2a1a2ec85d5e6ad0",
     "bb2a3f1aabbfa8c030e3ca7d52c9f1552cda622c5757f0e5a039e58a61b4cf8c"},
    {65, "90293c22be8afc267dfb5b9fc39b4569388991e1",
     "4852a0c15db3f0fd7e4d5dc7a3f1e98e0251baee73092a651de8f6064f13729b"},
    {119, "e5dfb6a977fbc7441f73aeff9da84d7290b0f5f5",
     "0fe669e29b9066befaf7ea47324dc3b2b3d74fc1a93765f4dd6eb5b39b910e69"},
    {120, "ab506f5ca9635d99b973f0d955f02bef1aafaced",
     "32b0ba6e6dfc11e0255423e8c8fb95a6a1a1227bbe3675fe55695050c3fb58bc"},
    {1000, "042238d4608c4823abae0508b58835ab5b6e391e",
     "538598f63668de8854ac1110196abe75ff5743e8f434d5c78b4fded44d73d141"},
};

TEST(Digest, EqualsOtherPrograms) {
  for (const Expected& one : kExpected) {
    const std::string bytes = pattern(one.bytes);
    Sha1 sha1;
    Sha256 sha256;
    sha1.update(bytes);
    sha256.update(bytes);
    EXPECT_EQ(sha1.hex(), one.sha1) << one.bytes;
    EXPECT_EQ(sha256.hex(), one.sha256) << one.bytes;
  }
}

TEST(Digest, DoesNotDependOnThePieces) {
  const std::string bytes = pattern(1000);
  for (const std::size_t step : {1u, 7u, 63u, 64u, 65u, 999u}) {
    Sha256 sha256;
    for (std::size_t at = 0; at < bytes.size(); at += step) sha256.update(bytes.substr(at, step));
    EXPECT_EQ(sha256.hex(), kExpected[std::size(kExpected) - 1].sha256) << step;
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
