// The codes of a packed map, as the page's script reads them.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "core/base64.h"

namespace heed {

/// Codes of up to 8 bits are one byte each; those of more are all upper bytes, then all those below.
inline std::vector<int> codes_of_pack(const std::string& base64, int bits) {
  const std::string deflated = decode_base64(base64).value();
  std::vector<Bytef> bytes(1 << 20);
  uLongf size = bytes.size();
  EXPECT_EQ(uncompress(bytes.data(), &size, reinterpret_cast<const Bytef*>(deflated.data()), deflated.size()),
            Z_OK);
  const std::size_t planes = bits > 16 ? 3 : bits > 8 ? 2 : 1, count = size / planes;
  std::vector<int> codes(count);
  for (std::size_t i = 0; i < planes * count; ++i) codes[i % count] = codes[i % count] * 256 + bytes[i];
  return codes;
}

}  // namespace heed
