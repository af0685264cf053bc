// Holds files.
#include "explore/model/files.h"

#include "heed/error.h"

namespace heed::explore {
namespace {

constexpr std::size_t kMostHeldBytes = 128u << 20, kMostHeldFiles = 32, kAlwaysHeld = 2;

}  // namespace

std::int64_t Files::add(std::string bytes) {
  files_.emplace_back(++last_, std::move(bytes));
  std::size_t held = 0;
  for (const auto& [number, file] : files_) held += file.size();
  while (files_.size() > kAlwaysHeld && (held > kMostHeldBytes || files_.size() > kMostHeldFiles)) {
    held -= files_.front().second.size();
    files_.pop_front();
  }
  return last_;
}

void Files::drop_last() { files_.pop_back(); }

const std::string& Files::bytes(std::int64_t number) const {
  for (const auto& [held, bytes] : files_) {
    if (held == number) return bytes;
  }
  throw Error("file: not found (choose the file again)");
}

const char* name_of(InputKind kind) {
  switch (kind) {
    case InputKind::tokens: return "text";
    case InputKind::pixels:
    case InputKind::patches: return "image";
    case InputKind::spectrogram:
    case InputKind::waveform: return "sound";
  }
  HEED_ASSERT(false, "unknown kind of input");
}

}  // namespace heed::explore
