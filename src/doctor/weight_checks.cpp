// Checks of the tensors in the files: numbers that are none, dead and repeated rows, and norms.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "doctor/examination.h"
#include "heed/io/safetensors.h"
#include "heed/ops/shape.h"

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

TensorStatistics statistics_of(const std::string& name, const Tensor& stored) {
  const Tensor tensor = stored.to(DType::f32).contiguous();
  TensorStatistics s{.name = name};
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
  s.rms = std::sqrt(sum / static_cast<double>(tensor.numel()));
  return s;
}

// The tables that ids index: as many rows as the vocabulary, or those of an embedding.
bool is_vocabulary(const TensorStatistics& s, Examination& e) {
  return s.rows == e.model().vocab_size() || s.rows == e.id_limit() ||
         s.name.find("embed") != std::string::npos;
}

}  // namespace

const std::vector<TensorStatistics>& Examination::weights() {
  if (weights_) return *weights_;
  weights_.emplace();
  const auto add = [&](const auto& files, const TensorInfo& info) {
    if (info.dtype == "F32" || info.dtype == "F64" || info.dtype == "F16" || info.dtype == "BF16")
      weights_->push_back(statistics_of(info.name, files.get(info.name)));
  };
  const TensorFiles files = TensorFiles::open(checked.directory);
  for (const std::string& name : files.names()) add(files, files.info(name));
  for (const std::filesystem::path& adapter : checked.adapters) {
    const SafetensorsFile file = SafetensorsFile::open(adapter / "adapter_model.safetensors");
    for (const TensorInfo& info : file.tensors()) add(file, info);
  }
  return *weights_;
}

Finding check_weights_finite(Examination& e) {
  std::int64_t nan = 0, infinite = 0;
  std::string where;
  for (const TensorStatistics& s : e.weights()) {
    if (s.nan + s.infinite > 0 && where.empty()) where = s.name;
    nan += s.nan;
    infinite += s.infinite;
  }
  Finding found{.values = {{"nan", static_cast<double>(nan)}, {"infinite", static_cast<double>(infinite)}}};
  if (nan + infinite == 0) {
    found.figure = fmt::format("{} tensors, no NaN, no infinity", e.weights().size());
    return found;
  }
  found.status = CheckStatus::failed;
  found.figure = fmt::format("{} NaN and {} infinite numbers, first in {}", nan, infinite, where);
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
    found.figure = "no row of a matrix is zeros or equals another";
    return found;
  }
  found.status = CheckStatus::warning;
  found.figure = fmt::format("{} rows of zeros and {} repeated rows, first in {}", zeros, repeated, where);
  found.advice = "such units compute nothing new: expected after pruning, else a sign of a bad conversion";
  return found;
}

Finding check_weight_norms(Examination& e) {
  std::vector<const TensorStatistics*> matrices;
  Finding found;
  for (const TensorStatistics& s : e.weights()) {
    found.values.emplace_back(s.name, s.rms);
    if (s.rows > 1) matrices.push_back(&s);
  }
  if (matrices.empty()) return skip("the files hold no matrices");
  std::sort(matrices.begin(), matrices.end(), [](const auto* a, const auto* b) { return a->rms < b->rms; });
  const TensorStatistics& least = *matrices.front();
  const TensorStatistics& most = *matrices.back();
  const double median = matrices[matrices.size() / 2]->rms;
  found.figure = fmt::format("root mean square of matrices {:.3g} ({}) to {:.3g} ({}), median {:.3g}",
                             least.rms, least.name, most.rms, most.name, median);
  if (least.rms == 0 || most.rms > kLargeNorm * median) {
    found.status = CheckStatus::warning;
    found.advice = least.rms == 0
                       ? least.name + " is all zeros: it was never trained, or lost in a conversion"
                       : most.name + " is far larger than the others: look at its training and its unit";
  }
  return found;
}

Finding check_unused_vocabulary(Examination& e) {
  const std::int64_t vocabulary = e.model().vocab_size();
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
  found.figure = text;
  if (unused * 10 > vocabulary) {  // a tenth: more than the padding to a multiple that makes products fast
    found.status = CheckStatus::warning;
    found.advice = "the table is larger than what was trained: a smaller vocab_size saves memory and time";
  }
  return found;
}

}  // namespace heed::doctor
