// Taps: matching names against patterns, selecting parts of values, and calling listeners.
#include "heed/nn/tap.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>

#include "core/strings.h"
#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

using TapIndices = std::vector<std::int64_t>;

// `*` in the pattern matches any run of characters.
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

// decoder.layers.3.out -> decoder.layers.N.out
std::string without_numbers(const std::string& name) {
  std::string kind;
  for (const char c : name) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      kind += c;
    } else if (kind.empty() || kind.back() != 'N') {
      kind += 'N';
    }
  }
  return kind;
}

// The indices of a range of `size` values.
TapIndices indices_of(const std::string& name, const char* what, const TapRange& range, std::int64_t size) {
  const std::int64_t end = range.end.value_or(size);
  if (range.begin < 0 || range.begin >= end || end > size) {
    throw Error("tap " + name + ": expected " + what + " of the " + std::to_string(size) +
                " there are, got " + std::to_string(range.begin) + ":" +
                (range.end ? std::to_string(end) : std::string()));
  }
  TapIndices all(static_cast<std::size_t>(end - range.begin));
  std::iota(all.begin(), all.end(), range.begin);
  return all;
}

void check_heads(const std::string& name, const TapIndices& heads, std::int64_t count) {
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i] < 0 || heads[i] >= count || (i > 0 && heads[i] <= heads[i - 1])) {
      throw Error("tap " + name + ": expected heads below " + std::to_string(count) +
                  " in increasing order, got " + std::to_string(heads[i]));
    }
  }
}

// Where the indices are among those that a value holds (empty: all).
TapIndices places_in(const TapIndices& held, const TapIndices& indices) {
  if (held.empty()) return indices;
  TapIndices places;
  for (const std::int64_t index : indices)
    places.push_back(std::lower_bound(held.begin(), held.end(), index) - held.begin());
  return places;
}

// Indices along one axis of a value.
struct AxisPlaces {
  int axis;
  TapIndices places;
  bool is_run() const {
    return places.back() - places.front() + 1 == static_cast<std::int64_t>(places.size());
  }
};

Tensor take(Tensor value, const std::vector<AxisPlaces>& chosen) {
  for (const auto& [axis, places] : chosen) {
    const AxisPlaces one{axis, places};
    value = one.is_run()
                ? slice(value, axis, places.front(), places.back() + 1)
                : gather(value, axis, Tensor::from(places, {static_cast<std::int64_t>(places.size())}));
  }
  return value;
}

// Overwrites the chosen part of `value` from axis `next` of the choice on.
void put(const Tensor& value, const Tensor& part, const std::vector<AxisPlaces>& chosen,
         std::size_t next = 0) {
  if (next == chosen.size()) return value.copy_from(part);
  const AxisPlaces& here = chosen[next];
  if (here.is_run())
    return put(slice(value, here.axis, here.places.front(), here.places.back() + 1), part, chosen, next + 1);
  for (std::size_t i = 0; i < here.places.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    put(slice(value, here.axis, here.places[i], here.places[i] + 1), slice(part, here.axis, at, at + 1),
        chosen, next + 1);
  }
}

// Whether a listener gave back the numbers that it got: then nothing is computed by another way.
bool has_same_numbers(const Tensor& given, const Tensor& offered) {
  if (offered.is_same(given)) return true;
  if (needs_gradient({given, offered})) return false;  // it may be another node of the graph
  const Tensor a = given.contiguous(), b = offered.contiguous();
  const std::size_t bytes = static_cast<std::size_t>(a.numel()) * size_of(a.dtype());
  return bytes == 0 || std::memcmp(a.raw_data(), b.raw_data(), bytes) == 0;
}

std::vector<AxisPlaces> chosen_places(const std::string& name, const Tensor& value, TapAxes axes,
                                      const TapPart& part, const TapSelection& selection) {
  const auto missing = [&](const char* what) {
    return Error("tap " + name + ": expected a value with " + what + " to select, got " + value.str());
  };
  std::vector<AxisPlaces> chosen;
  if (!selection.heads.empty()) {
    if (axes.heads < 0) throw missing("heads");
    check_heads(name, selection.heads, part.heads.empty() ? value.size(axes.heads) : part.heads.back() + 1);
    chosen.push_back({axes.heads, places_in(part.heads, selection.heads)});
  }
  if (!selection.queries.all()) {
    if (axes.queries < 0) throw missing("queries");
    const std::int64_t size = part.queries.empty() ? value.size(axes.queries) : part.queries.back() + 1;
    chosen.push_back(
        {axes.queries, places_in(part.queries, indices_of(name, "queries", selection.queries, size))});
  }
  if (!selection.keys.all()) {
    if (axes.keys < 0) throw missing("keys");
    chosen.push_back({axes.keys, indices_of(name, "keys", selection.keys, value.size(axes.keys))});
  }
  return chosen;
}

void add_sorted(TapIndices& to, const TapIndices& more) {
  TapIndices both;
  std::set_union(to.begin(), to.end(), more.begin(), more.end(), std::back_inserter(both));
  to = std::move(both);
}

}  // namespace

void Taps::listen(std::string pattern, TapSelection selection, Listener listener) {
  entries_.push_back({std::move(pattern), std::move(selection), std::move(listener)});
}

bool Taps::wants(const std::string& name) const {
  kinds_.insert(without_numbers(name));
  if (outer_ != nullptr && outer_->wants(name)) return true;
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return matches(entry.pattern, name); });
}

void Taps::each(const std::string& name, const std::function<void(const Entry&)>& visit) const {
  if (outer_ != nullptr) outer_->each(name, visit);
  for (const Entry& entry : entries_) {
    if (matches(entry.pattern, name)) visit(entry);
  }
}

TapPart Taps::wanted_part(const std::vector<std::string>& names, std::int64_t heads,
                          std::int64_t queries) const {
  TapPart part;
  bool all_heads = false, all_queries = false;
  for (const std::string& name : names) {
    each(name, [&](const Entry& entry) {
      const TapSelection& selection = entry.selection;
      all_heads = all_heads || selection.heads.empty();
      all_queries = all_queries || selection.queries.all();
      check_heads(name, selection.heads, heads);
      add_sorted(part.heads, selection.heads);
      add_sorted(part.queries, indices_of(name, "queries", selection.queries, queries));
    });
  }
  if (all_heads || static_cast<std::int64_t>(part.heads.size()) == heads) part.heads.clear();
  if (all_queries || static_cast<std::int64_t>(part.queries.size()) == queries) part.queries.clear();
  return part;
}

void Taps::emit(const std::string& name, Tensor& value, TapAxes axes, const TapPart& part) {
  if (outer_ != nullptr) outer_->emit(name, value, axes, part);
  for (Entry& entry : entries_) {
    if (!matches(entry.pattern, name)) continue;
    entry.fired = true;
    const std::vector<AxisPlaces> chosen = chosen_places(name, value, axes, part, entry.selection);
    const Tensor given = take(value, chosen);
    Tensor offered = given;
    entry.listener(name, offered);
    if (!offered.defined() || offered.shape() != given.shape() || offered.dtype() != given.dtype()) {
      throw Error("tap " + name + ": expected a replacement like " + given.str() + ", got " +
                  (offered.defined() ? offered.str() : std::string("none")));
    }
    if (has_same_numbers(given, offered)) continue;
    if (chosen.empty()) {
      value = offered;
      continue;
    }
    refuse_gradient(("tap " + name + ": a replaced part").c_str(), {value, offered});
    value = value.clone();
    put(value, offered, chosen);
  }
}

void Taps::begin_at(std::int64_t position) {
  first_position_ = position;
  if (outer_ != nullptr) outer_->begin_at(position);
}

void Taps::require_all_fired() const {
  std::vector<std::string> silent;
  for (const Entry& entry : entries_) {
    const bool is_known = std::find(silent.begin(), silent.end(), entry.pattern) != silent.end();
    if (!entry.fired && !is_known) silent.push_back(entry.pattern);
  }
  if (silent.empty()) return;
  throw Error("taps: no value of the model matches " + joined(silent) + " (" +
              (kinds_.empty() ? "" : "this pass had " + joined(kinds_) + "; ") +
              "docs/attention.md explains the names)");
}

Listener replace_by_zeros() {
  return [](const std::string&, Tensor& value) { value = Tensor::zeros(value.shape(), value.dtype()); };
}

Listener replace_by_scaled(double factor) {
  return [factor](const std::string&, Tensor& value) { value = value * factor; };
}

Listener replace_by_sum(Tensor vector) {
  return [vector = std::move(vector)](const std::string&, Tensor& value) {
    value = value + vector.to(value.dtype());
  };
}

Listener replace_by(Tensor replacement) {
  return [replacement = std::move(replacement)](const std::string&, Tensor& value) {
    value = replacement.to(value.dtype());
  };
}

}  // namespace heed
