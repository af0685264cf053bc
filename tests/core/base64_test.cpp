// Base64.
#include "core/base64.h"

#include <gtest/gtest.h>

namespace heed {
namespace {

TEST(Base64, EqualsRfc4648) {  // section 10
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9v"), "foo");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decode_base64("+/8="), "\xFB\xFF");
  EXPECT_EQ(decode_base64("Zm9v YmFy"), std::nullopt);
  for (const char* bytes : {"", "f", "fo", "foo", "foobar", "\xFB\xFF"})
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
}

}  // namespace
}  // namespace heed
