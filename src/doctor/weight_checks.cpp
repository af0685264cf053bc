// Checks of the tensors in the files: numbers that are none, dead and repeated rows, and norms.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "core/block_type.h"
#include "core/strings.h"
#include "doctor/examination.h"
#include "heed/io/safetensors.h"
#include "heed/ops/shape.h"
#include "models/non_finite.h"

namespace heed::doctor {
namespace {

// A tensor this many times larger than the median of all is odd.
constexpr double kLargeNorm = 100;

std::uint64_t hash_of(const float* row, std::int64_t columns) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::int64_t i = 0; i + 1 < columns; i += 2) {
    std::uint64_t word = 0;
    std::memcpy(&word, row + i, sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  std::uint32_t last = 0;
  std::memcpy(&last, row + columns - 1, sizeof last);
  return (hash ^ last) * 0x9e3779b97f4a7c15u;
}

// Whether a file's tensors of that type are weights: plain or in blocks.
bool is_floating_type(const std::string& dtype) {
  const auto layouts = block_layouts();
  return dtype == "F64" || std::any_of(layouts.begin(), layouts.end(),
                                       [&](const BlockLayout& layout) { return layout.name == dtype; });
}

TensorStatistics statistics_of(const std::string& name, const std::filesystem::path& file,
                               const Tensor& stored) {
  const Tensor tensor = stored.to(DType::f32).contiguous();
  TensorStatistics s{.name = name, .file = file};
  const bool matrix = tensor.rank() > 1 && tensor.size(0) > 1;
  s.rows = matrix ? tensor.size(0) : 1;
  s.columns = s.rows == 0 ? 0 : tensor.numel() / s.rows;
  if (tensor.numel() == 0) return s;
  const float* data = tensor.data<float>();
  double sum = 0;
  std::unordered_set<std::uint64_t> seen;
  for (std::int64_t r = 0; r < s.rows; ++r, data += s.columns) {
    double squares = 0;
    for (std::int64_t i = 0; i < s.columns; ++i)
      squares += static_cast<double>(data[i]) * static_cast<double>(data[i]);
    if (!std::isfinite(squares)) {
      s.nan += std::count_if(data, data + s.columns, [](float x) { return std::isnan(x); });
      s.infinite += std::count_if(data, data + s.columns, [](float x) { return std::isinf(x); });
    }
    sum += squares;
    if (!matrix || s.columns < 2) continue;
    if (squares == 0) {
      ++s.zero_rows;
    } else if (!seen.insert(hash_of(data, s.columns)).second) {
      ++s.repeated_rows;
    }
  }
  if (s.nan + s.infinite > 0) s.first_non_finite = describe(*first_non_finite(tensor), name, tensor.shape());
  s.rms = std::sqrt(sum / static_cast<double>(tensor.numel()));
  return s;
}

// The tables that ids index: as many rows as the vocabulary, or those of an embedding.
bool is_vocabulary(const TensorStatistics& s, Examination& e) {
  return s.rows == e.vocab_size() || s.rows == e.id_limit() || s.name.find("embed") != std::string::npos;
}

// The gain of a LayerNorm or RMS norm, by its name in any family: ln_1.weight,
// post_attention_layernorm.weight.
bool is_norm_weight(const TensorStatistics& s) {
  const std::string name = ascii_lower(s.name);
  const bool gain = name.ends_with(".weight") || name.ends_with(".gamma");
  return gain && s.rows == 1 && (name.find("norm") != name.npos || name.find("ln_") != name.npos);
}

}  // namespace

const std::vector<TensorStatistics>& Examination::weights() {
  if (weights_) return *weights_;
  std::vector<TensorStatistics> all;
  const auto add = [&](const TensorFiles& files) {
    for (const std::string& name : files.names()) {
      if (is_floating_type(files.info(name).dtype))
        all.push_back(statistics_of(name, files.path_of(name).filename(), files.get(name)));
    }
  };
  add(TensorFiles::open(*checked.files));
  for (const std::string& adapter : checked.adapters)
    add(TensorFiles::open(std::filesystem::path(adapter) / "adapter_model.safetensors"));
  weights_ = std::move(all);  // only whole: a later check meets the same error
  return *weights_;
}

Finding check_weights_finite(Examination& e) {
  std::int64_t nan = 0, infinite = 0;
  std::string where;
  for (const TensorStatistics& s : e.weights()) {
    if (s.nan + s.infinite > 0 && where.empty()) where = s.file.string() + ": " + s.first_non_finite;
    nan += s.nan;
    infinite += s.infinite;
  }
  Finding found{.values = {{"nan", static_cast<double>(nan)}, {"infinite", static_cast<double>(infinite)}}};
  if (nan + infinite == 0) {
    found.measurement = fmt::format("{} tensors, no NaN, no infinity", e.weights().size());
    return found;
  }
  found.status = CheckStatus::failed;
  found.measurement = fmt::format("{} NaN and {} infinite numbers; {}", nan, infinite, where);
  found.advice =
      "take an earlier checkpoint; a smaller learning rate or clipped gradients keep training finite";
  return found;
}

Finding check_weight_rows(Examination& e) {
  std::int64_t zeros = 0, repeated = 0;
  std::string where;
  for (const TensorStatistics& s : e.weights()) {
    if (is_vocabulary(s, e)) continue;  // "unused vocabulary" looks at those
    if (s.zero_rows + s.repeated_rows > 0 && where.empty()) where = s.name;
    zeros += s.zero_rows;
    repeated += s.repeated_rows;
  }
  Finding found{
      .values = {{"zero", static_cast<double>(zeros)}, {"repeated", static_cast<double>(repeated)}}};
  if (zeros + repeated == 0) {
    found.measurement = "no row of a matrix is zeros or equals another";
    return found;
  }
  found.status = CheckStatus::warning;
  found.measurement =
      fmt::format("{} rows of zeros and {} repeated rows, first in {}", zeros, repeated, where);
  found.advice = "such units compute nothing new: expected after pruning, else a sign of a bad conversion";
  return found;
}

Finding check_weight_norms(Examination& e) {
  std::vector<const TensorStatistics*> matrices;
  Finding found;
  for (const TensorStatistics& s : e.weights()) {
    found.values.emplace_back(s.name, s.rms);
    if (s.rows > 1 && std::isfinite(s.rms)) matrices.push_back(&s);
  }
  if (matrices.empty()) return skip("the files hold no matrices");
  std::sort(matrices.begin(), matrices.end(), [](const auto* a, const auto* b) { return a->rms < b->rms; });
  const TensorStatistics& least = *matrices.front();
  const TensorStatistics& most = *matrices.back();
  const double median = matrices[matrices.size() / 2]->rms;
  found.measurement = fmt::format("root mean square of matrices {:.3g} ({}) to {:.3g} ({}), median {:.3g}",
                                  least.rms, least.name, most.rms, most.name, median);
  if (least.rms == 0 || most.rms > kLargeNorm * median) {
    found.status = CheckStatus::warning;
    found.advice = least.rms == 0
                       ? least.name + " is all zeros: it was never trained, or lost in a conversion"
                       : most.name + " is far larger than the others: look at its training and its unit";
  }
  return found;
}

Finding check_norm_weights(Examination& e) {
  std::int64_t norms = 0;
  std::vector<const TensorStatistics*> zeros;
  for (const TensorStatistics& s : e.weights()) {
    if (!is_norm_weight(s)) continue;
    ++norms;
    if (s.rms == 0) zeros.push_back(&s);
  }
  if (norms == 0) return skip("the files hold no weights of norms");
  Finding found{
      .measurement = fmt::format("{} norms, {} of them with weights of zeros", norms, zeros.size()),
      .values = {{"norms", static_cast<double>(norms)}, {"zero", static_cast<double>(zeros.size())}}};
  // A new model whose norms multiply by 1 + weight has zeros in all of them.
  if (zeros.empty() || std::ssize(zeros) == norms) return found;
  found.status = CheckStatus::failed;
  found.measurement += fmt::format("; {}: {}", zeros.front()->file.string(), zeros.front()->name);
  found.advice = "a norm of zeros passes nothing on: it was lost in a conversion, or never initialized";
  return found;
}

Finding check_unused_vocabulary(Examination& e) {
  const std::int64_t vocabulary = e.vocab_size();
  if (vocabulary == 0) return skip("the model has no tokens");
  Finding found;
  std::string text;
  std::int64_t zeros = 0, repeated = 0;
  for (const TensorStatistics& s : e.weights()) {
    if (s.rows != vocabulary || s.columns < 2) continue;
    zeros = std::max(zeros, s.zero_rows);
    repeated = std::max(repeated, s.repeated_rows);
  }
  found.values = {{"zero", static_cast<double>(zeros)}, {"repeated", static_cast<double>(repeated)}};
  text = fmt::format("{} rows of zeros and {} repeated rows among {} ids", zeros, repeated, vocabulary);
  std::int64_t unused = std::max<std::int64_t>(0, zeros - 1) + repeated;  // one row of zeros is the padding
  if (e.tokenizer() != nullptr) {
    const std::int64_t beyond = std::max<std::int64_t>(0, vocabulary - e.tokenizer()->vocab_size());
    found.values.emplace_back("beyond_tokenizer", static_cast<double>(beyond));
    text += fmt::format(", {} that no token has", beyond);
    unused = std::max(unused, beyond);
  }
  found.measurement = text;
  if (unused * 10 > vocabulary) {  // a tenth: more than the padding to a multiple that makes products fast
    found.status = CheckStatus::warning;
    found.advice = "the table is larger than what was trained: a smaller vocab_size saves memory and time";
  }
  return found;
}

}  // namespace heed::doctor
