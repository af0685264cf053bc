// Keeps decodings of prompts that were read, the latest used ones within a limit of bytes.
#include "generate/prefix_cache.h"

#include <algorithm>

namespace heed::generate {

namespace {

std::int64_t common_tokens(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

std::int64_t shared_tokens(std::span<const std::int64_t> read, std::span<const std::int64_t> prompt,
                           std::int64_t chunk_size) {
  const std::int64_t common = common_tokens(read, prompt.first(prompt.size() - 1));
  // Sums cannot go back: all or nothing, and only where a pass may end.
  if (chunk_size != 1 && (common < std::ssize(read) || common % chunk_size != 0)) return 0;
  return common >= kLeastShared ? common : 0;
}

PrefixCache::Found PrefixCache::find(std::span<const std::int64_t> prompt, CacheDType dtype) {
  Found found;
  auto best = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const std::int64_t length = entry->dtype == dtype ? shared_tokens(entry->ids, prompt, chunk_size_) : 0;
    if (length <= found.length) continue;
    best = entry;
    found = {entry->decoding.get(), length};
  }
  if (best != entries_.end()) entries_.splice(entries_.begin(), entries_, best);
  return found;
}

bool PrefixCache::holds(const Entry& entry, std::span<const std::int64_t> ids, CacheDType dtype) const {
  return entry.dtype == dtype && common_tokens(entry.ids, ids) == std::ssize(ids) &&
         (chunk_size_ == 1 || entry.ids.size() == ids.size());
}

bool PrefixCache::wants(std::span<const std::int64_t> ids, CacheDType dtype) {
  if (most_bytes_ == 0 || std::ssize(ids) < kLeastShared) return false;
  const auto held = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    if (chunk_size_ != 1) return holds(entry, ids, dtype);
    return entry.dtype == dtype && std::ssize(ids) - common_tokens(entry.ids, ids) < kLeastShared;
  });
  if (held == entries_.end()) return true;
  entries_.splice(entries_.begin(), entries_, held);
  return false;
}

void PrefixCache::keep(std::vector<std::int64_t> ids, CacheDType dtype, std::unique_ptr<Decoding> decoding) {
  Entry added{std::move(ids), dtype, std::move(decoding), 0};
  added.bytes = added.decoding->bytes() + added.ids.size() * sizeof(std::int64_t);
  if (added.bytes > most_bytes_) return;
  const auto drop = [&](std::list<Entry>::iterator entry) {
    bytes_ -= entry->bytes;
    return entries_.erase(entry);
  };
  for (auto entry = entries_.begin(); entry != entries_.end();)
    entry = holds(added, entry->ids, entry->dtype) ? drop(entry) : std::next(entry);
  while (bytes_ + added.bytes > most_bytes_) drop(std::prev(entries_.end()));
  bytes_ += added.bytes;
  entries_.push_front(std::move(added));
}

}  // namespace heed::generate
