#include "hub/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "heed/io/hub_cache.h"

namespace heed::hub {
namespace {

std::uint32_t big_endian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
         bytes[3];
}

// Passes whole blocks of 64 bytes to `block` and keeps the rest for the next call.
template <class Block>
void in_blocks(std::string_view bytes, std::array<unsigned char, 64>& rest, std::uint64_t& length,
               Block block) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size(), used = length % rest.size();
  length += left;
  while (left > 0) {
    if (used == 0 && left >= rest.size()) {
      block(data);
      data += rest.size();
      left -= rest.size();
      continue;
    }
    const std::size_t take = std::min(left, rest.size() - used);
    std::memcpy(rest.data() + used, data, take);
    data += take;
    left -= take;
    used += take;
    if (used == rest.size()) {
      block(rest.data());
      used = 0;
    }
  }
}

// Adds the padding: the bit 1, zeros up to 8 bytes before the end of a block, and the length in bits.
template <class Digest>
void pad(Digest& digest, std::uint64_t length) {
  std::string padding(1, '\x80');
  padding.append((119 - length % 64) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8)
    padding.push_back(static_cast<char>((length * 8) >> shift & 0xff));
  digest.update(padding);
}

template <std::size_t N>
std::string hexadecimal(const std::array<std::uint32_t, N>& words) {
  std::string text;
  for (const std::uint32_t word : words) {
    for (int shift = 28; shift >= 0; shift -= 4) text.push_back("0123456789abcdef"[word >> shift & 15]);
  }
  return text;
}

constexpr std::uint32_t kSha256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha1::block(const unsigned char* bytes) {
  std::uint32_t w[80];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state_;
  for (int i = 0; i < 80; ++i) {
    std::uint32_t f = b ^ c ^ d, k = 0xca62c1d6;
    if (i < 20) {
      f = (b & c) | (~b & d);
      k = 0x5a827999;
    } else if (i < 40) {
      k = 0x6ed9eba1;
    } else if (i < 60) {
      f = (b & c) | (b & d) | (c & d);
      k = 0x8f1bbcdc;
    }
    const std::uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state_ = {state_[0] + a, state_[1] + b, state_[2] + c, state_[3] + d, state_[4] + e};
}

void Sha1::update(std::string_view bytes) {
  in_blocks(bytes, rest_, length_, [this](const unsigned char* data) { block(data); });
}

std::string Sha1::hex() {
  pad(*this, length_);
  return hexadecimal(state_);
}

void Sha256::block(const unsigned char* bytes) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(bytes + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t x = w[i - 15], y = w[i - 2];
    const std::uint32_t s0 = std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3;
    const std::uint32_t s1 = std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::uint32_t sums[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[static_cast<std::size_t>(i)] += sums[i];
}

void Sha256::update(std::string_view bytes) {
  in_blocks(bytes, rest_, length_, [this](const unsigned char* data) { block(data); });
}

std::string Sha256::hex() {
  pad(*this, length_);
  return hexadecimal(state_);
}

EtagCheck::EtagCheck(std::string_view etag, std::uint64_t size) : kind_(Kind::none), etag_(etag) {
  if (!is_commit(etag)) return;  // not hexadecimal digits of either length
  kind_ = etag.size() == 40 ? Kind::git : Kind::sha256;
  if (kind_ == Kind::git) sha1_.update("blob " + std::to_string(size) + std::string(1, '\0'));
}

void EtagCheck::update(std::string_view bytes) {
  if (kind_ == Kind::git) sha1_.update(bytes);
  if (kind_ == Kind::sha256) sha256_.update(bytes);
}

std::string EtagCheck::digest() {
  if (kind_ == Kind::git) return sha1_.hex();
  return kind_ == Kind::sha256 ? sha256_.hex() : etag_;
}

}  // namespace heed::hub
