// Checks of attention and layers by their taps: rows of weights that sum to one, the variance and the scale
// of scores, saturated rows, and the norm of the residual stream.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "doctor/examination.h"
#include "heed/ops/shape.h"

namespace heed::doctor {
namespace {

constexpr std::int64_t kAttentionTokens = 32;
constexpr std::int64_t kMostQueries = 64;   // of a head whose scores are looked at: a sound has 1500
constexpr double kSumError = 1e-3;          // of a row in f32 or bf16
constexpr double kSaturated = 0.99;         // a row with this much weight on one key
constexpr double kMostSaturated = 0.5;      // of all rows
constexpr double kUnscaledSaturated = 0.3;  // of all rows, where the scale is wrong as well
constexpr double kScaleError = 2;           // of the measured scale over 1/sqrt(d)
constexpr double kGoodFit = 0.9;  // R^2 of log weights by products, below which the scale is not judged

// The name of a layer's attention in a tap: "decoder.layers.3.self_attn" of "decoder.layers.3.self_attn.q".
std::string attention_of(const std::string& tap) { return tap.substr(0, tap.rfind('.')); }

struct RowSums {
  double worst = 0;
  std::string where;
  std::int64_t rows = 0;
};

void check_rows(const std::string& tap, const Tensor& weights, RowSums& sums) {
  const Tensor dense = weights.to(DType::f32).contiguous();
  const std::int64_t keys = dense.size(dense.rank() - 1), rows = dense.numel() / keys;
  const float* w = dense.data<float>();
  for (std::int64_t r = 0; r < rows; ++r, w += keys) {
    double sum = 0, negative = 0;
    for (std::int64_t s = 0; s < keys; ++s) {
      sum += static_cast<double>(w[s]);
      negative = std::max(negative, -static_cast<double>(w[s]));
    }
    const double error = std::isfinite(sum) ? std::max(std::abs(sum - 1), negative) : INFINITY;
    if (!(error <= sums.worst)) {
      sums.worst = error;
      sums.where = attention_of(tap);
    }
  }
  sums.rows += rows;
}

// Sums over the pairs of query and key of a layer, each row about its mean.
struct ScoreSums {
  std::int64_t head_dim = 0;
  double products = 0, logs = 0, both = 0;  // squares of q k, squares of log w, and their product
  std::int64_t pairs = 0, rows = 0, saturated = 0;

  double variance() const { return products / static_cast<double>(std::max<std::int64_t>(1, pairs)); }
  double scale() const { return products > 0 ? both / products : 0; }
  double fit() const { return products > 0 && logs > 0 ? both * both / (products * logs) : 0; }
  double share() const {
    return static_cast<double>(saturated) / static_cast<double>(std::max<std::int64_t>(1, rows));
  }
};

void add_row(const float* q, const float* keys, const float* w, std::int64_t count, std::int64_t d,
             ScoreSums& sums) {
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0, largest = 0;
  for (std::int64_t s = 0; s < count; ++s) {
    largest = std::max(largest, static_cast<double>(w[s]));
    if (w[s] < 1e-30f) continue;  // masked, or too small for its logarithm
    double product = 0;
    for (std::int64_t i = 0; i < d; ++i)
      product += static_cast<double>(q[i]) * static_cast<double>(keys[s * d + i]);
    const double log = std::log(static_cast<double>(w[s]));
    n += 1, x += product, y += log, xx += product * product, yy += log * log, xy += product * log;
  }
  ++sums.rows;
  sums.saturated += largest > kSaturated;
  if (n < 2) return;
  sums.products += xx - x * x / n;
  sums.logs += yy - y * y / n;
  sums.both += xy - x * y / n;
  sums.pairs += static_cast<std::int64_t>(n);
}

// Queries and keys [1, H or K, T or S, d] and weights [1, H, T, S] of one attention.
ScoreSums scores_of(const Tensor& queries, const Tensor& keys, const Tensor& weights, bool causal) {
  const Tensor q = queries.to(DType::f32).contiguous(), k = keys.to(DType::f32).contiguous(),
               w = weights.to(DType::f32).contiguous();
  const std::int64_t heads = q.size(1), group = heads / k.size(1), time = q.size(2), count = k.size(2),
                     d = q.size(3);
  ScoreSums sums{.head_dim = d};
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t step = std::max<std::int64_t>(1, time / kMostQueries);
    for (std::int64_t t = causal ? 1 : 0; t < time; t += step)  // the first query of a decoder has one key
      add_row(q.data<float>() + (h * time + t) * d, k.data<float>() + h / group * count * d,
              w.data<float>() + (h * time + t) * count, count, d, sums);
  }
  return sums;
}

// The score sums of all attentions of a pathway, by part.
std::map<std::string, ScoreSums> measure_scores(Examination& e, const Pathway& pathway) {
  std::map<std::string, std::pair<Tensor, Tensor>> seen;  // queries and keys
  std::map<std::string, ScoreSums> layers;
  Taps taps;
  const std::string layer = pathway.name + ".layers.*_attn";
  taps.listen(layer + ".q",
              [&](const std::string& name, Tensor& value) { seen[attention_of(name)].first = value; });
  taps.listen(layer + ".k",
              [&](const std::string& name, Tensor& value) { seen[attention_of(name)].second = value; });
  taps.listen(layer + ".weights", [&](const std::string& name, Tensor& value) {
    const auto found = seen.find(attention_of(name));
    if (found == seen.end() || value.rank() != 4 || value.size(3) < 2) return;
    const bool causal = pathway.causal && name.find("self_attn") != std::string::npos;
    layers[found->first] = scores_of(found->second.first, found->second.second, value, causal);
    seen.erase(found);
  });
  Context context;
  context.taps = &taps;
  pathway(e.ids(1, e.length(kAttentionTokens)), context);
  return layers;
}

Finding scores_of_pathway(Examination& e, const Pathway& pathway) {
  const auto layers = measure_scores(e, pathway);
  if (layers.empty()) return skip("no attention with scores");
  Finding found;
  double before = 0, after = 0, saturated = 0, rows = 0;
  std::size_t judged = 0, wrong = 0;
  std::string unscaled;
  for (const auto& [name, sums] : layers) {
    const double scale = sums.scale(), expected = 1 / std::sqrt(static_cast<double>(sums.head_dim));
    found.values.emplace_back(name + ".variance", sums.variance());
    found.values.emplace_back(name + ".scaled_variance", sums.variance() * scale * scale);
    found.values.emplace_back(name + ".scale", scale);
    found.values.emplace_back(name + ".saturated", sums.share());
    before += sums.variance() / static_cast<double>(layers.size());
    after += sums.variance() * scale * scale / static_cast<double>(layers.size());
    saturated += static_cast<double>(sums.saturated);
    rows += static_cast<double>(sums.rows);
    if (sums.fit() < kGoodFit) continue;
    ++judged;
    if (scale < kScaleError * expected) continue;
    ++wrong;
    if (unscaled.empty())
      unscaled = fmt::format("; {} has scale {:.2g}, where 1/sqrt({}) is {:.2g}", name, scale, sums.head_dim,
                             expected);
  }
  const double share = saturated / std::max(1.0, rows);
  found.measurement = fmt::format("variance {:.3g} before scaling, {:.3g} after; {:.0f} % of rows saturated",
                                  before, after, 100 * share);
  if (wrong > 0 && wrong == judged && share > kUnscaledSaturated) {
    found.status = CheckStatus::failed;
    found.measurement += unscaled;
    found.advice = "the scores lack their scale: multiply q k by 1/sqrt(head dimension)";
  } else if (share > kMostSaturated) {
    found.status = CheckStatus::warning;
    found.advice =
        "most queries attend to one key and pass no gradient: look at the scale of scores and the learning "
        "rate";
  }
  return found;
}

Finding rows_of_pathway(Examination& e, const Pathway& pathway) {
  RowSums sums;
  Taps taps;
  taps.listen(pathway.name + ".layers.*_attn.weights",
              [&](const std::string& name, Tensor& value) { check_rows(name, value, sums); });
  Context context;
  context.taps = &taps;
  pathway(e.ids(pathway.tokens ? 2 : 1, e.length(kAttentionTokens)), context);
  if (sums.rows == 0) return skip("no attention weights");
  Finding found{
      .measurement = fmt::format("{} rows of weights sum to one within {:.1g}", sums.rows, sums.worst),
      .values = {{"error", sums.worst}}};
  if (sums.worst <= kSumError) return found;
  found.status = CheckStatus::failed;
  found.measurement = fmt::format("a row of {} misses the sum 1 by {:.2g}", sums.where, sums.worst);
  found.advice = "the softmax runs over another axis than the keys, or weights change after it";
  return found;
}

// The mean norm of a token's vector in x [B, T, D].
double mean_norm(const Tensor& x) {
  const Tensor dense = x.to(DType::f32).contiguous();
  const std::int64_t d = dense.size(2), rows = dense.numel() / d;
  const float* row = dense.data<float>();
  double sum = 0;
  for (std::int64_t r = 0; r < rows; ++r, row += d) {
    double squares = 0;
    for (std::int64_t i = 0; i < d; ++i) squares += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    sum += std::sqrt(squares);
  }
  return sum / static_cast<double>(rows);
}

Finding residual_of_pathway(Examination& e, const Pathway& pathway) {
  std::vector<std::pair<std::string, double>> norms;
  std::vector<std::string> idle;
  Tensor before;
  const std::string layers = pathway.name + ".layers.";
  const auto look = [&](const std::string& name, Tensor& value) {
    const std::string rest = name.substr(0, name.size() - 4);  // without ".out"
    if (name.starts_with(layers) && rest.find('.', layers.size()) != std::string::npos) return;  // of a part
    norms.emplace_back(name, mean_norm(value));
    if (before.defined() && before.shape() == value.shape() && same_bits(before, value)) idle.push_back(rest);
    before = value.clone();
  };
  Taps taps;
  taps.listen(pathway.name + ".embed", look);
  taps.listen(layers + "*.out", look);
  Context context;
  context.taps = &taps;
  pathway(e.ids(1, e.length(kAttentionTokens)), context);
  if (norms.size() < 2) return skip("its layers have no taps");
  const auto largest = std::max_element(norms.begin(), norms.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  Finding found{
      .measurement = fmt::format("{:.3g} after the embedding, {:.3g} after the last layer, largest {:.3g}",
                                 norms.front().second, norms.back().second, largest->second),
      .values = norms};
  if (idle.empty()) return found;
  found.status = CheckStatus::warning;
  found.measurement += "; " + idle.front() + " changes nothing";
  found.advice = "this layer can be left out: look at its norms and at its output projections";
  return found;
}

using StackCheck = Finding (*)(Examination&, const Pathway&);

Finding over_stacks(Examination& e, StackCheck check) {
  Finding total;
  for (const Pathway& pathway : e.pathways()) {
    if (pathway.is_stack()) add(total, pathway.name, check(e, pathway));
  }
  return total.measurement.empty() ? skip("the model's inputs are not known without its config.json") : total;
}

}  // namespace

Finding check_attention_rows(Examination& e) { return over_stacks(e, rows_of_pathway); }
Finding check_scores(Examination& e) { return over_stacks(e, scores_of_pathway); }
Finding check_residual(Examination& e) { return over_stacks(e, residual_of_pathway); }

}  // namespace heed::doctor
