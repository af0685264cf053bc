// Dead and duplicate heads, by ablation: one batch holds the same row once as it is and once for each head
// without it. Every attention gets the same input in all rows, because its result is set back to that of the
// whole row: a head is dead if leaving it out changes no bit of what the attention gives.
#include <fmt/format.h>
#include <span>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/strings.h"
#include "doctor/examination.h"
#include "heed/ops/shape.h"

namespace heed::doctor {
namespace {

constexpr std::int64_t kHeadTokens = 16;
constexpr double kSameMap = 1e-6;  // two heads whose weights differ by no more attend alike
constexpr std::size_t kNamed = 4;  // heads that the measurement lists

struct Heads {
  std::int64_t count = 0;
  std::vector<std::string> dead, duplicate;
  double weakest = 0;  // the smallest change of an attention's result without a head, relative
  std::string weakest_name;
};

std::string attention_of_tap(const std::string& tap) { return tap.substr(0, tap.rfind('.')); }

std::string head_name(const std::string& part, std::int64_t head) {
  return fmt::format("{} head {}", part, head);
}

// Row 1 + h of the weights [1 + H, H, T, S] loses head h.
Tensor without_heads(const Tensor& weights) {
  const Tensor changed = weights.clone();
  const std::int64_t heads = changed.size(1), each = changed.size(2) * changed.size(3);
  float* first = changed.data<float>();
  for (std::int64_t h = 0; h < heads && 1 + h < changed.size(0); ++h)
    std::fill_n(first + ((1 + h) * heads + h) * each, each, 0.0f);
  return changed;
}

void find_duplicates(const std::string& part, const Tensor& weights, Heads& heads) {
  const Tensor dense = weights.contiguous();
  const std::int64_t count = dense.size(1), each = dense.size(2) * dense.size(3);
  if (dense.size(3) < 2) return;
  const float* first = dense.data<float>();
  for (std::int64_t a = 0; a < count; ++a) {
    for (std::int64_t b = a + 1; b < count; ++b) {
      double difference = 0;
      for (std::int64_t i = 0; i < each && difference <= kSameMap; ++i)
        difference = std::max(difference, std::abs(static_cast<double>(first[a * each + i]) -
                                                   static_cast<double>(first[b * each + i])));
      if (difference <= kSameMap) heads.duplicate.push_back(fmt::format("{} heads {} and {}", part, a, b));
    }
  }
}

// Compares the rows of an attention's result [1 + H, T, D] with the first.
void find_dead(const std::string& part, const Tensor& out, std::int64_t count, Heads& heads) {
  const Tensor whole = slice(out, 0, 0, 1);
  for (std::int64_t h = 0; h < count && 1 + h < out.size(0); ++h) {
    const Tensor without = slice(out, 0, 1 + h, 2 + h);
    ++heads.count;
    if (same_bits(whole, without)) heads.dead.push_back(head_name(part, h));
    const double change = relative_difference(whole, without);
    if (!heads.weakest_name.empty() && change >= heads.weakest) continue;
    heads.weakest = change;
    heads.weakest_name = head_name(part, h);
  }
}

// The largest number of heads of a pathway's attentions.
std::int64_t most_heads(Examination& e, const Pathway& pathway) {
  std::int64_t most = 0;
  Taps taps;
  taps.listen(pathway.name + ".layers.*_attn.weights", [&](const std::string&, Tensor& value) {
    if (value.rank() == 4 && value.dtype() == DType::f32) most = std::max(most, value.size(1));
  });
  Context context;
  context.taps = &taps;
  pathway(e.ids(1, e.length(2)), context);
  return most;
}

Heads ablate(Examination& e, const Pathway& pathway, std::int64_t most) {
  Heads heads;
  std::map<std::string, std::int64_t> open;  // attentions whose weights were changed, and their heads
  Taps taps;
  const std::string layers = pathway.name + ".layers.*_attn";
  taps.listen(layers + ".weights", [&](const std::string& name, Tensor& value) {
    if (value.rank() != 4 || value.dtype() != DType::f32) return;
    find_duplicates(attention_of_tap(name), slice(value, 0, 0, 1), heads);
    open[attention_of_tap(name)] = value.size(1);
    value = without_heads(value.contiguous());
  });
  taps.listen(layers + ".out", [&](const std::string& name, Tensor& value) {
    const auto found = open.find(attention_of_tap(name));
    if (found == open.end()) return;
    find_dead(found->first, value, found->second, heads);
    value = broadcast_to(slice(value, 0, 0, 1), value.shape()).contiguous();
    open.erase(found);
  });
  Context context;
  context.taps = &taps;
  const std::int64_t time = e.length(kHeadTokens);
  const Tensor ids = e.ids(1, time);
  pathway(broadcast_to(ids, {1 + most, time}).contiguous(), context);
  return heads;
}

std::string named(const std::vector<std::string>& names) {
  return joined(std::span(names).first(std::min(names.size(), kNamed))) +
         (names.size() > kNamed ? ", ..." : "");
}

Finding heads_of_pathway(Examination& e, const Pathway& pathway) {
  const std::int64_t most = most_heads(e, pathway);
  if (most == 0) return skip("no attention with heads");
  const Heads heads = ablate(e, pathway, most);
  if (heads.count == 0) return skip("its attention has no result to compare");
  Finding found{.values = {{"heads", static_cast<double>(heads.count)},
                           {"dead", static_cast<double>(heads.dead.size())},
                           {"duplicate", static_cast<double>(heads.duplicate.size())},
                           {"weakest", heads.weakest}}};
  found.measurement = fmt::format("{} heads, {} dead, {} pairs alike", heads.count, heads.dead.size(),
                                  heads.duplicate.size());
  if (heads.dead.empty() && heads.duplicate.empty()) {
    found.measurement +=
        fmt::format("; the weakest, {}, makes {}", heads.weakest_name, percent(heads.weakest));
    return found;
  }
  found.status = CheckStatus::warning;
  found.measurement += ": " + named(heads.dead.empty() ? heads.duplicate : heads.dead);
  found.advice = heads.dead.empty()
                     ? "heads that attend alike add little: look at how they were initialized"
                     : "a dead head adds nothing: expected after pruning, else look at the norm "
                       "before it and at its rows of the output projection";
  return found;
}

}  // namespace

Finding check_heads(Examination& e) {
  Finding total;
  const bool takes_features = e.traits().is(ModelKind::encoder_decoder) && !e.traits().reads_text();
  for (const Pathway& pathway : e.pathways()) {
    if (pathway.is_stack())
      add(total, pathway.name,
          takes_features ? skip("an image or a sound for each head takes too long")
                         : heads_of_pathway(e, pathway));
  }
  return total.measurement.empty() ? skip("the model's inputs are not known without its config.json") : total;
}

}  // namespace heed::doctor
