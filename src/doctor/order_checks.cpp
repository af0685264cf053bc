// Checks of what a token sees: later tokens, and the order of tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/examination.h"
#include "heed/ops/shape.h"

namespace heed::doctor {
namespace {

constexpr std::int64_t kOrderTokens = 24;
constexpr std::int64_t kFewestOrdered = 6;  // tokens that a check of order needs
constexpr double kSameOutput = 1e-5;        // a relative difference that rounding alone explains

// The positions before `cut` whose outputs differ in any bit.
std::vector<std::int64_t> changed_before(const Tensor& a, const Tensor& b, std::int64_t cut) {
  std::vector<std::int64_t> changed;
  for (std::int64_t t = 0; t < cut; ++t) {
    if (!same_bits(at_position(a, t), at_position(b, t))) changed.push_back(t);
  }
  return changed;
}

Finding judge_causal(const Pathway& pathway, const std::vector<std::int64_t>& changed, std::int64_t cut) {
  const auto count = static_cast<double>(changed.size());
  Finding found{.values = {{"changed", count}}};
  if (!pathway.causal) {
    found.measurement =
        fmt::format("{} of {} earlier outputs follow later tokens, as an encoder's do", changed.size(), cut);
    if (!changed.empty()) return found;
    found.status = CheckStatus::failed;
    found.advice = "the encoder runs with a causal mask: leave it out";
    return found;
  }
  found.measurement = fmt::format("{} earlier outputs are the same to the bit when later tokens change", cut);
  if (changed.empty()) return found;
  found.status = CheckStatus::failed;
  found.measurement =
      fmt::format("{} of {} earlier outputs change with later tokens, the first at position {}",
                  changed.size(), cut, changed.front());
  found.advice = changed.size() == 1 ? "the causal mask is off by one: query t may attend to keys s <= t"
                                     : "the causal mask is missing: query t may attend to keys s <= t";
  return found;
}

Finding causality_of(Examination& e, const Pathway& pathway) {
  const std::int64_t time = e.length(kOrderTokens), cut = time / 2;
  if (time < 2) return skip("the model has one position");
  if (e.other_id(e.stream().front()) == e.stream().front()) return skip("the model has one ordinary id");
  if (!pathway.causal && !e.traits().self_attention)
    return skip("a recurrent encoder may read in either direction");
  const Tensor before = e.ids(1, time), after = before.clone();
  for (std::int64_t t = cut; t < time; ++t)
    after.data<std::int64_t>()[t] = e.other_id(before.data<std::int64_t>()[t]);
  const Tensor a = pathway(before), b = pathway(after);
  if (relative_difference(at_position(a, time - 1), at_position(b, time - 1)) ==
      0)  // zeros of either sign, too
    return {
        CheckStatus::failed, "the last output is the same for other tokens",
        "nothing of the input arrives: look at the weights of norms, and for weights that are far too large"};
  return judge_causal(pathway, changed_before(a, b, cut), cut);
}

// Two rows of the same ids in another order, the last the same: b[t] = a[from[t]].
struct Reordering {
  Tensor a, b;
  Tensor from;  // i64 [T]
  std::string text;
};

// "dog bites man" and "man bites dog" in ids, where the tokenizer makes the same ids of both.
std::optional<Reordering> sentences(Examination& e) {
  if (e.tokenizer() == nullptr) return std::nullopt;
  const std::vector<std::int64_t> a = e.tokenizer()->encode("the dog bites the man .", false).ids;
  const std::vector<std::int64_t> b = e.tokenizer()->encode("the man bites the dog .", false).ids;
  const auto size = static_cast<std::int64_t>(a.size());
  if (a == b || a.size() != b.size() || size < kFewestOrdered - 1 || size > e.length(size))
    return std::nullopt;
  std::vector<std::int64_t> from(a.size(), -1);
  std::vector<bool> taken(a.size(), false);
  const auto take = [&](std::size_t to, std::size_t at) {
    from[to] = static_cast<std::int64_t>(at);
    taken[at] = true;
  };
  for (std::size_t t = 0; t < a.size(); ++t) {
    if (a[t] >= e.id_limit() || b[t] >= e.id_limit()) return std::nullopt;
    if (a[t] == b[t]) take(t, t);
  }
  for (std::size_t t = 0; t < a.size(); ++t) {
    for (std::size_t s = 0; s < a.size() && from[t] < 0; ++s) {
      if (!taken[s] && a[s] == b[t]) take(t, s);
    }
    if (from[t] < 0) return std::nullopt;
  }
  if (from.back() != size - 1) return std::nullopt;
  return Reordering{Tensor::from(a, {1, size}), Tensor::from(b, {1, size}), Tensor::from(from, {size}),
                    "\"dog bites man\" and \"man bites dog\""};
}

// Two ids of the stream exchanged.
std::optional<Reordering> exchanged(Examination& e) {
  const std::int64_t time = e.length(8);
  if (time < kFewestOrdered) return std::nullopt;
  const Tensor a = e.ids(1, time), b = a.clone();
  std::vector<std::int64_t> from;
  for (std::int64_t t = 0; t < time; ++t) from.push_back(t);
  std::swap(from[time - 4], from[time - 2]);  // near the last, for models with a window
  std::swap(b.data<std::int64_t>()[time - 4], b.data<std::int64_t>()[time - 2]);
  if (same_bits(a.to(DType::f32), b.to(DType::f32))) return std::nullopt;
  return Reordering{a, b, Tensor::from(from, {time}), "two orders of the same tokens"};
}

// The outputs of a pathway's layers at the last position, as listeners see them.
class LayerOutputs {
 public:
  explicit LayerOutputs(const std::string& stack) : prefix_(stack + ".layers.") {}
  void run(const Pathway& pathway, const Tensor& ids, std::optional<std::size_t> reordered = {},
           const Tensor& from = {}) {
    Taps taps;
    taps.listen(prefix_ + "*.out", [&](const std::string& name, Tensor& value) {
      const std::string layer = name.substr(prefix_.size(), name.size() - prefix_.size() - 4);
      if (layer.find('.') != std::string::npos) return;  // of a part
      if (reordered && layer == std::to_string(*reordered)) value = gather(value, 1, from).contiguous();
      last.push_back(at_position(value, value.size(1) - 1).clone());
    });
    Context context;
    context.taps = &taps;
    result = at_position(pathway(ids, context), ids.size(1) - 1).clone();
  }
  std::vector<Tensor> last;
  Tensor result;

 private:
  std::string prefix_;
};

// The first layer whose output at the last position depends on the order of what it reads; none: the model is
// blind to order. The first layer reads the embeddings of ids in another order, so that positions which are
// added count; a later one reads its own input with the positions exchanged. (Behind a causal mask a second
// layer tells orders apart without positions, because what it reads came from different prefixes.)
std::optional<std::size_t> first_ordered_layer(const Pathway& pathway, const Reordering& r,
                                               const LayerOutputs& a, const LayerOutputs& b) {
  if (relative_difference(a.last[0], b.last[0]) > kSameOutput) return 0;
  for (std::size_t layer = 1; layer < a.last.size(); ++layer) {
    LayerOutputs moved(pathway.name);
    moved.run(pathway, r.a, layer - 1, r.from);
    if (relative_difference(a.last[layer], moved.last[layer]) > kSameOutput) return layer;
  }
  return std::nullopt;
}

// Whether the config turns positions off.
bool asks_for_no_positions(Examination& e) {
  if (!e.config()) return false;
  const Config& config = *e.config();
  for (const char* part : {"rotary_pct", "partial_rotary_factor"}) {
    if (config.has(part) && config.number(part, 1) == 0) return true;
  }
  return config.is_string("position_embedding_type") &&
         config.string("position_embedding_type", "") == "none";
}

// Whether the output at the last position follows the tokens that change places: other tokens there change
// it. It does not behind a narrow window, and where nothing of the input arrives.
bool sees_exchanged(Examination& e, const Pathway& pathway, const Reordering& r) {
  const Tensor other = r.a.clone();
  const std::int64_t last = r.a.size(1) - 1;
  auto* ids = other.data<std::int64_t>();
  for (std::int64_t t = 0; t < last; ++t) {
    if (r.from.data<std::int64_t>()[t] != t) ids[t] = e.other_id(ids[t]);
  }
  return relative_difference(at_position(pathway(r.a), last), at_position(pathway(other), last)) >
         kSameOutput;
}

// How far the vectors that enter the first layer differ by position (of one token) and by token (at one
// position): root mean squares.
struct EmbeddingParts {
  double positions = 0, tokens = 0;
};
EmbeddingParts embedding_parts(const Pathway& pathway, const Tensor& ids) {
  const auto embed = [&](const Tensor& row) {
    Tensor seen;
    Taps taps;
    taps.listen(pathway.name + ".embed",
                [&](const std::string&, Tensor& value) { seen = value.to(DType::f32).clone(); });
    Context context;
    context.taps = &taps;
    pathway(row, context);
    return seen;
  };
  const std::int64_t time = ids.size(1);
  const Tensor one = broadcast_to(slice(ids, 1, 0, 1), {1, time}).contiguous();
  const Tensor a = embed(one), b = embed(ids);
  EmbeddingParts parts;
  if (!a.defined() || !b.defined() || a.rank() != 3 || a.size(1) != time) return parts;
  const auto distance = [](const Tensor& x, std::int64_t s, const Tensor& y, std::int64_t t) {
    const std::vector<float> p = at_position(x, s).to_vector<float>(),
                             q = at_position(y, t).to_vector<float>();
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i)
      sum += std::pow(static_cast<double>(p[i]) - static_cast<double>(q[i]), 2);
    return std::sqrt(sum / static_cast<double>(p.size()));
  };
  for (std::int64_t t = 1; t < time; ++t) {
    parts.positions += distance(a, t, a, 0) / static_cast<double>(time - 1);
    parts.tokens += distance(a, t, b, t) / static_cast<double>(time - 1);
  }
  return parts;
}

constexpr double kDrowned =
    4;  // positions this many times the tokens, or the reverse times ten, are out of scale

Finding judge_order(Examination& e, const Pathway& pathway, const Reordering& r) {
  LayerOutputs a(pathway.name), b(pathway.name);
  a.run(pathway, r.a);
  b.run(pathway, r.b);
  const double difference = relative_difference(a.result, b.result);
  Finding found{.measurement = fmt::format("{} differ by {}", r.text, percent(difference)),
                .values = {{"difference", difference}}};
  if (difference > kSameOutput && (a.last.empty() || first_ordered_layer(pathway, r, a, b))) return found;
  if (asks_for_no_positions(e)) {
    found.status = CheckStatus::warning;
    found.measurement += "; config.json asks for no positions";
    found.advice = "a decoder learns order from its mask alone, but slowly; an encoder cannot";
    return found;
  }
  found.status = CheckStatus::failed;
  found.measurement += difference > kSameOutput ? "; no layer depends on positions, only the causal mask does"
                                                : "; the model is blind to order";
  found.advice =
      "positions are missing: look at the position embedding in the file, and at the config's settings of "
      "positions";
  const EmbeddingParts parts = embedding_parts(pathway, r.a);
  if (parts.positions > kDrowned * parts.tokens) {
    found.measurement += fmt::format("; positions are {:.3g} times as large as the embeddings of tokens",
                                     parts.positions / parts.tokens);
    found.advice =
        "positions drown the tokens: look at the scale of the embeddings (scale_embedding, "
        "embedding_multiplier), "
        "and at that of the table of positions";
  }
  return found;
}

Finding order_of(Examination& e, const Pathway& pathway) {
  bool any = false;
  for (const std::optional<Reordering>& r : {sentences(e), exchanged(e)}) {
    if (!r) continue;
    any = true;
    if (sees_exchanged(e, pathway, *r)) return judge_order(e, pathway, *r);
  }
  return skip(any ? "the last output does not follow the tokens that change places"
                  : "the model has too few positions or ids");
}

using OrderCheck = Finding (*)(Examination&, const Pathway&);

Finding over_token_pathways(Examination& e, OrderCheck check) {
  Finding total;
  for (const Pathway& pathway : e.pathways()) {
    if (pathway.tokens && pathway.is_stack()) add(total, pathway.name, check(e, pathway));
  }
  return total.measurement.empty() ? skip("the model reads no tokens") : total;
}

}  // namespace

Finding check_causality(Examination& e) { return over_token_pathways(e, causality_of); }
Finding check_order(Examination& e) { return over_token_pathways(e, order_of); }

}  // namespace heed::doctor
