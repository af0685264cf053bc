// What a gzip file has.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace heed::server_test {

inline std::string inflated(const std::string& packed) {
  z_stream stream{};
  if (::inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::runtime_error("inflateInit2 failed");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::string part(1 << 16, '\0');
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    state = ::inflate(&stream, Z_NO_FLUSH);
    text.append(part, 0, part.size() - stream.avail_out);
  }
  ::inflateEnd(&stream);
  if (state != Z_STREAM_END || stream.avail_in != 0) throw std::runtime_error("not a whole gzip file");
  return text;
}

}  // namespace heed::server_test
