// Taps: matching names against patterns and calling listeners.
#include "heed/nn/tap.h"

namespace heed {
namespace {

// `*` in the pattern stands for any run of characters.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

void Taps::listen(std::string pattern, Listener listener) {
  entries_.push_back({std::move(pattern), std::move(listener)});
}

bool Taps::wants(const std::string& name) const {
  if (outer_ != nullptr && outer_->wants(name)) return true;
  for (const Entry& entry : entries_) {
    if (matches(entry.pattern, name)) return true;
  }
  return false;
}

void Taps::emit(const std::string& name, Tensor& value) {
  if (outer_ != nullptr) outer_->emit(name, value);
  for (Entry& entry : entries_) {
    if (!matches(entry.pattern, name)) continue;
    entry.fired = true;
    Tensor offered = value;
    entry.listener(name, offered);
    if (!offered.defined() || offered.shape() != value.shape() || offered.dtype() != value.dtype()) {
      throw Error("tap " + name + ": expected a replacement like " + value.str() + ", got " + offered.str());
    }
    value = offered;
  }
}

void Taps::require_all_fired() const {
  std::string silent;
  for (const Entry& entry : entries_) {
    if (!entry.fired) silent += (silent.empty() ? "" : ", ") + entry.pattern;
  }
  if (!silent.empty())
    throw Error("taps: no value of the model matches " + silent + " (docs/attention.md lists the names)");
}

}  // namespace heed
