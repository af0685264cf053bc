// The header, and the stream of zlib.
#include "server/compression.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>

#include "core/pause_point.h"
#include "core/strings.h"
#include "heed/error.h"

namespace heed::server {
namespace {

std::string_view trimmed_of(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

/// From 0 to 1; 1 where none is told, 0 for what is no number.
double quality_of(std::string_view parameters) {
  const std::size_t at = parameters.find("q=");
  if (at == parameters.npos) return 1;
  return std::strtod(std::string(parameters.substr(at + 2)).c_str(), nullptr);
}

}  // namespace

bool accepts_gzip(std::string_view header) {
  double gzip = -1, any = 0, identity = 0;
  while (!header.empty()) {
    const std::string one = ascii_lower(header.substr(0, header.find(',')));
    header.remove_prefix(std::min(header.size(), one.size() + 1));
    const std::size_t end = std::min(one.find(';'), one.size());
    const std::string_view name = trimmed_of(std::string_view(one).substr(0, end));
    const double quality = quality_of(std::string_view(one).substr(end));
    if (name == "gzip" || name == "x-gzip") gzip = quality;
    if (name == "*") any = quality;
    if (name == "identity") identity = quality;
  }
  const double own = gzip < 0 ? any : gzip;
  return own > 0 && own >= identity;
}

std::string gzipped(std::string_view text) {
  constexpr std::size_t kInput = std::size_t{1} << 18, kOutput = std::size_t{1} << 16;
  constexpr int kGzip = 16 + MAX_WBITS, kMemory = 8;
  z_stream stream{};
  if (::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error("gzip: not enough memory");
  struct Ended {
    z_stream& stream;
    ~Ended() { ::deflateEnd(&stream); }
  } const ended{stream};
  std::string packed;
  std::string part(kOutput, '\0');
  do {
    pause_point();
    const std::string_view input = text.substr(0, kInput);
    text.remove_prefix(input.size());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream.avail_in = static_cast<uInt>(input.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(part.data());
      stream.avail_out = static_cast<uInt>(part.size());
      ::deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
      packed.append(part, 0, part.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (!text.empty());
  return packed;
}

}  // namespace heed::server
