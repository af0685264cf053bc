// A small task: y = W dropout(x) + b fitted to fixed random data, so that tests of the loop take
// milliseconds.
#pragma once

#include <cmath>
#include <vector>

#include "heed/autograd.h"
#include "heed/io/safetensors.h"
#include "heed/nn/linear.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/train/training_task.h"

namespace heed {

class Regression final : public TrainingTask {
 public:
  /// `batches`: the number of rows of each micro-batch of an epoch. The order of an epoch's batches depends
  /// on the epoch.
  explicit Regression(std::vector<std::int64_t> batches = {8, 8, 8, 8, 8}, double dropout = 0.2)
      : batches_(std::move(batches)), dropout_(dropout) {
    std::int64_t rows = 0;
    for (const std::int64_t b : batches_) rows += b;
    x_ = random({rows, kIn}, 1);
    y_ = random({rows, kOut}, 2);
    weight_ = random({kOut, kIn}, 3);
    bias_ = Tensor::zeros({kOut});
    parameters_ = {{"weight", weight_.set_requires_grad(), true}, {"bias", bias_.set_requires_grad(), false}};
  }

  const std::vector<Parameter>& parameters() const override { return parameters_; }
  SummedLoss next_loss(Context& context) override {
    const auto count = static_cast<std::int64_t>(batches_.size());
    const std::int64_t which = (position_.batch + position_.epoch) % count;
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < which; ++i) begin += batches_[static_cast<std::size_t>(i)];
    const std::int64_t rows = batches_[static_cast<std::size_t>(which)];
    if (++position_.batch == count) position_ = {position_.epoch + 1, 0};
    Tensor sum = loss(slice(x_, 0, begin, begin + rows), slice(y_, 0, begin, begin + rows), context);
    if (++calls_ == poisoned_call) sum = mul(sum, std::nan(""));
    return {sum, rows};
  }
  BatchPosition position() const override { return position_; }
  void seek(const BatchPosition& position) override { position_ = position; }
  std::int64_t batches_per_epoch() const override { return static_cast<std::int64_t>(batches_.size()); }
  bool evaluates() const override { return true; }
  Evaluation evaluate() override {
    const NoGradients off;
    Context context;
    Evaluation evaluation;
    evaluation.loss = loss(x_, y_, context).item() / static_cast<double>(x_.size(0));
    if (!losses.empty()) evaluation.loss = losses[std::min(evaluations, losses.size() - 1)];
    ++evaluations;
    return evaluation;
  }
  std::optional<Evaluation> test() override { return std::nullopt; }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    save_safetensors(directory / "model.safetensors",
                     {{"weight", weight_.detach().to(dtype)}, {"bias", bias_.detach().to(dtype)}});
  }
  std::string fingerprint() const override { return data_name; }

  std::int64_t poisoned_call = -1;  ///< the call whose loss is NaN
  std::vector<double> losses;       ///< results of evaluations, instead of the real ones
  std::size_t evaluations = 0;
  std::string data_name = "regression";

 private:
  static constexpr std::int64_t kIn = 48;
  static constexpr std::int64_t kOut = 32;

  static Tensor random(const Shape& shape, std::uint64_t stream) {
    const RandomStream numbers{99, stream};
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = numbers.normal(i);
    return Tensor::from(values, shape);
  }
  Tensor loss(const Tensor& x, const Tensor& y, Context& context) const {
    const Tensor error = sub(linear(apply_dropout(x, dropout_, context), weight_, bias_), y);
    return sum(mul(error, error));
  }

  std::vector<std::int64_t> batches_;
  double dropout_;
  Tensor x_, y_, weight_, bias_;
  std::vector<Parameter> parameters_;
  BatchPosition position_;
  std::int64_t calls_ = 0;
};

}  // namespace heed
