// The search for stop strings.
#include "serve/generation/stop_text.h"

#include <algorithm>

namespace heed::serve {

std::string StopText::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  std::size_t first = held_.npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != held_.npos) {
    stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  std::size_t kept = 0;  // the longest end that begins a stop string
  for (const std::string& stop : stops_) {
    std::size_t size = std::min(stop.size() - 1, held_.size());
    while (size > kept && !held_.ends_with(std::string_view(stop).substr(0, size))) --size;
    kept = std::max(kept, size);
  }
  std::string sent = held_.substr(0, held_.size() - kept);
  held_.erase(0, held_.size() - kept);
  return sent;
}

}  // namespace heed::serve
