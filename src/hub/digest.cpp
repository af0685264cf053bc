#include "hub/digest.h"

#include <span>

#include "core/strings.h"
#include "heed/io/hub_cache.h"

namespace heed::hub {
namespace {

const std::uint8_t* data_of(std::string_view bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) append_hex(text, byte);
  return text;
}

}  // namespace

EtagCheck::EtagCheck(std::string_view etag, std::uint64_t size) : kind_(Kind::none), etag_(etag) {
  sha1_init(&sha1_);
  sha256_init(&sha256_);
  if (!is_commit(etag)) return;  // not hexadecimal digits of either length
  kind_ = etag.size() == 40 ? Kind::git : Kind::sha256;
  if (kind_ == Kind::git) update("blob " + std::to_string(size) + std::string(1, '\0'));
}

void EtagCheck::update(std::string_view bytes) {
  if (kind_ == Kind::git) sha1_update(&sha1_, bytes.size(), data_of(bytes));
  if (kind_ == Kind::sha256) sha256_update(&sha256_, bytes.size(), data_of(bytes));
}

std::string EtagCheck::digest() {
  std::uint8_t bytes[SHA256_DIGEST_SIZE];
  if (kind_ == Kind::git) {
    sha1_digest(&sha1_, SHA1_DIGEST_SIZE, bytes);
    return hexadecimal({bytes, SHA1_DIGEST_SIZE});
  }
  if (kind_ == Kind::sha256) {
    sha256_digest(&sha256_, SHA256_DIGEST_SIZE, bytes);
    return hexadecimal({bytes, SHA256_DIGEST_SIZE});
  }
  return etag_;
}

}  // namespace heed::hub
