// PNM, the plain formats of Netpbm: P1 to P3 as text, P4 to P6 as bytes; bits, grey levels, colors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "image/decoder.h"

namespace heed::image {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// The header, and after it the samples of one image.
class Reader {
 public:
  explicit Reader(const Source& source) : source_(source), rest_(source.bytes) {
    kind_ = rest_[1] - '0';
    rest_.remove_prefix(2);
    width_ = header_number("width");
    height_ = header_number("height");
    check_size(source_, width_, height_);
    if (kind_ % 3 == 1) return;
    most_ = header_number("the greatest level");
    if (most_ < 1 || most_ > 65535)
      damaged("expected a greatest level from 1 to 65535, got " + std::to_string(most_));
  }

  Decoded read() {
    // Before memory is taken for them: the samples that are there at least.
    const std::int64_t per_pixel = kind_ % 3 == 0 ? 3 : 1;
    const std::int64_t row =
        kind_ == 4 ? (width_ + 7) / 8 : width_ * per_pixel * (most_ > 255 && kind_ > 3 ? 2 : 1);
    if (row * height_ > static_cast<std::int64_t>(rest_.size())) fail_truncated(source_);
    Decoded decoded{new_pixels(source_, width_, height_)};
    std::uint8_t* out = decoded.pixels.data<std::uint8_t>();
    for (std::int64_t y = 0; y < height_; ++y) {
      for (std::int64_t x = 0; x < width_; ++x, out += 3) {
        for (std::int64_t c = 0; c < per_pixel; ++c) out[c] = sample(x);
        if (per_pixel == 1) out[1] = out[2] = out[0];
      }
    }
    return decoded;
  }

 private:
  [[noreturn]] void damaged(const std::string& detail) const { fail_damaged(source_, "PNM", detail); }

  void skip_comment() { rest_.remove_prefix(std::min(rest_.find_first_of("\r\n"), rest_.size())); }

  /// A number and the one character after it.
  std::int64_t header_number(const char* what) {
    std::string digits;
    for (;;) {
      if (rest_.empty()) {
        if (digits.empty()) fail_truncated(source_);
        break;
      }
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '#') {
        skip_comment();
      } else if (is_space(c)) {
        if (!digits.empty()) break;
      } else if (c >= '0' && c <= '9' && digits.size() < 9) {
        digits.push_back(c);
      } else {
        damaged(std::string("expected a number for ") + what);
      }
    }
    return std::stoll(digits);
  }

  /// The next number of a text format; in P1 each digit is one.
  std::int64_t text_number() {
    while (!rest_.empty() && (is_space(rest_.front()) || rest_.front() == '#')) {
      if (rest_.front() == '#') {
        skip_comment();
      } else {
        rest_.remove_prefix(1);
      }
    }
    if (rest_.empty()) fail_truncated(source_);
    std::int64_t value = 0;
    std::size_t length = 0;
    while (length < rest_.size() && length < 9 && rest_[length] >= '0' && rest_[length] <= '9') {
      value = 10 * value + (rest_[length++] - '0');
      if (kind_ == 1) break;
    }
    if (length == 0) damaged("expected a number for a level");
    rest_.remove_prefix(length);
    if (value > most_)
      damaged("expected levels up to " + std::to_string(most_) + ", got " + std::to_string(value));
    return value;
  }

  std::int64_t two_bytes() {
    const std::int64_t high = byte();
    return high << 8 | byte();
  }

  std::int64_t byte() {
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }

  /// The level, 0 to 255, of the next sample, which is in column x.
  std::uint8_t sample(std::int64_t x) {
    if (kind_ == 1) return text_number() != 0 ? 0 : 255;
    if (kind_ == 4) {
      if (x % 8 == 0) bits_ = byte();
      return (bits_ >> (7 - x % 8) & 1) != 0 ? 0 : 255;
    }
    const std::int64_t value = kind_ < 4 ? text_number() : most_ > 255 ? two_bytes() : byte();
    if (most_ == 255) return static_cast<std::uint8_t>(value);
    // Pillow keeps grey levels of more than 8 bits as 16 bits, and then clips them.
    const bool clips = most_ > 255 && kind_ % 3 == 2;
    const double level =
        std::nearbyint(static_cast<double>(value) / static_cast<double>(most_) * (clips ? 65535 : 255));
    return static_cast<std::uint8_t>(std::min(level, 255.0));
  }

  const Source& source_;
  std::string_view rest_;
  int kind_ = 0;
  std::int64_t width_ = 0, height_ = 0;
  std::int64_t most_ = 1;  // the level of white
  std::int64_t bits_ = 0;  // of P4: the byte that is read bit by bit
};

}  // namespace

Decoded decode_pnm(const Source& source) { return Reader(source).read(); }

}  // namespace heed::image
