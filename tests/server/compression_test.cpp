// The header Accept-Encoding, and gzip files as zlib reads them.
#include "server/compression.h"

#include <gtest/gtest.h>

#include "core/pause_point.h"
#include "server/inflated.h"

namespace heed::server_test {
namespace {

TEST(Compression, ReadsTheHeader) {
  for (const char* header : {"gzip", "GZIP", "x-gzip", "deflate, gzip", "gzip, deflate, br, zstd", "*",
                             "gzip;q=0.5", "br;q=1.0, gzip;q=0.8, *;q=0.1", "identity;q=0.5, gzip;q=0.5",
                             "identity;q=0, *", " deflate ;q=1 , gzip ; q=0.001"})
    EXPECT_TRUE(server::accepts_gzip(header)) << header;
  for (const char* header :
       {"", "identity", "deflate, br", "gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=0, *",
        "identity, gzip;q=0.5", "identity;q=0.9, *;q=0.5", "gzipped", "gzip;q=none"})
    EXPECT_FALSE(server::accepts_gzip(header)) << header;
}

TEST(Compression, IsReadAgain) {
  std::string random;
  for (unsigned i = 0, x = 1; i < 1'000'000; ++i)
    random += static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  for (const std::string& text :
       {std::string(), std::string("a"), std::string(262'144, 'b'), std::string(3'000'000, 'c'), random})
    EXPECT_EQ(inflated(server::gzipped(text)), text);
  EXPECT_LT(server::gzipped(std::string(3'000'000, 'c')).size(), 30'000u);
}

TEST(Compression, GivesWay) {
  int pauses = 0;
  const PauseScope count([&] { ++pauses; });
  server::gzipped(std::string(3'000'000, 'c'));
  EXPECT_GE(pauses, 10);
}

}  // namespace
}  // namespace heed::server_test
