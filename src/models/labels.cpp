// Names, kinds and losses of labels.
#include "models/labels.h"

#include <algorithm>

#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "ops/softplus.h"

namespace heed {
namespace {

constexpr std::int64_t kMostLabels = 1 << 20;

// max(x, 0) - x y + log(1 + exp(-|x|)), which overflows nowhere
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& targets) {
  return positive_part(logits) - logits * targets + log(exp(neg(abs(logits))) + 1.0);
}

Tensor square(const Tensor& x) { return x * x; }

}  // namespace

std::vector<std::string> label_names(const Config& json) {
  std::vector<std::string> labels;
  if (const std::optional<Config> named = json.optional_sub("id2label")) {
    const std::size_t count = named->names().size();
    for (std::size_t i = 0; i < count; ++i) labels.push_back(named->required_string(std::to_string(i)));
    if (!labels.empty()) return labels;
  }
  const std::int64_t count = json.positive_integer("num_labels", 2);
  if (count > kMostLabels) json.fail("num_labels", "at most " + std::to_string(kMostLabels));
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(std::string("LABEL_") + std::to_string(i));
  return labels;
}

std::optional<LabelProblem> label_problem(const Config& json) {
  const std::string name = json.string("problem_type", "");
  if (name.empty()) return std::nullopt;
  if (name == "single_label_classification") return LabelProblem::single_label;
  if (name == "multi_label_classification") return LabelProblem::multi_label;
  if (name == "regression") return LabelProblem::regression;
  json.fail("problem_type", "single_label_classification, multi_label_classification or regression");
}

std::optional<Activation> score_activation_setting(const Config& json) {
  const char* key = "sbert_ce_default_activation_function";
  std::string name = json.string(key, "");
  if (const std::optional<Config> own = json.optional_sub("sentence_transformers")) {
    own->ignore({"version"});
    name = own->string("activation_fn", name);
    key = "sentence_transformers";
  }
  name = name.substr(name.rfind('.') + 1);  // torch.nn.modules.linear.Identity
  if (name.empty()) return std::nullopt;
  if (name == "Identity") return Activation::none;
  if (name == "Sigmoid") return Activation::sigmoid;
  json.fail(key, "Identity or Sigmoid as the function on the logit");
}

Tensor labels_as(const Tensor& labels, DType dtype, const Shape& shape, const char* name) {
  const bool integer = labels.dtype() == DType::i64 || labels.dtype() == DType::i32;
  const bool fits = labels.numel() == shape.numel() && labels.rank() > 0 && labels.size(0) == shape[0];
  if (!fits || (dtype == DType::i64 && !integer)) {
    throw Error(std::string("forward: ") + name + ": expected " + (dtype == DType::i64 ? "integers " : "") +
                shape.str() + ", got " + labels.str());
  }
  return reshape(labels.to(dtype), shape).contiguous();
}

Tensor sequence_loss(const Tensor& logits, const Tensor& labels, std::optional<LabelProblem> known,
                     const CrossEntropyOptions& options) {
  const std::int64_t batch = logits.size(0), count = logits.size(1);
  const bool integer = labels.dtype() == DType::i64 || labels.dtype() == DType::i32;
  const LabelProblem problem =
      known.value_or(count == 1 ? LabelProblem::regression
                                : (integer ? LabelProblem::single_label : LabelProblem::multi_label));
  if (problem == LabelProblem::single_label)
    return cross_entropy(logits, labels_as(labels, DType::i64, {batch}, "labels"), options);
  const Tensor targets = labels_as(labels, DType::f32, {batch, count}, "labels");
  const Tensor losses =
      problem == LabelProblem::regression ? square(logits - targets) : binary_cross_entropy(logits, targets);
  if (options.reduction == Reduction::none) return mean(losses, 1);
  return options.reduction == Reduction::sum ? mean(losses) * static_cast<double>(batch) : mean(losses);
}

Tensor speech_loss(const Tensor& logits, const Tensor& labels, const Tensor& mask, const CtcOptions& ctc,
                   const CrossEntropyOptions& options) {
  const std::int64_t batch = logits.size(0), time = logits.size(1);
  const Tensor wanted =
      labels_as(labels, DType::i64, {batch, labels.numel() / std::max<std::int64_t>(1, batch)}, "labels");
  Tensor lengths;
  if (mask.defined()) {
    lengths = Tensor::zeros({batch}, DType::i64);
    for (std::int64_t i = 0; i < batch * time; ++i)
      lengths.data<std::int64_t>()[i / time] += mask.data<std::int64_t>()[i] != 0 ? 1 : 0;
  }
  const Tensor loss = ctc_loss(logits, wanted, lengths, ctc);
  const bool summed = options.reduction == Reduction::sum && ctc.reduction == Reduction::mean;
  return summed ? loss * static_cast<double>(batch) : loss;
}

Tensor span_loss(const Tensor& logits, const Tensor& positions, CrossEntropyOptions options) {
  const std::int64_t batch = logits.size(0), length = logits.size(1);
  const Tensor wanted = labels_as(positions, DType::i64, {batch, 2}, "start_positions, end_positions");
  Tensor targets = Tensor::empty({2, batch}, DType::i64);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t side = 0; side < 2; ++side) {
      const std::int64_t position = wanted.data<std::int64_t>()[2 * b + side];
      targets.data<std::int64_t>()[side * batch + b] = std::clamp<std::int64_t>(position, 0, length);
    }
  }
  options.ignore_index = length;
  const auto one = [&](std::int64_t side) {
    const Tensor scores = reshape(slice(logits, 2, side, side + 1), {batch, length});
    return cross_entropy(scores, reshape(slice(targets, 0, side, side + 1), {batch}), options);
  };
  return (one(0) + one(1)) * 0.5;
}

}  // namespace heed
