// Buckets of gradients: complete when they set off, also with weights that several layers share and layers
// that are computed again, and parts for a sharded optimizer.
#include "train/gradient_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "heed/nn/feed_forward.h"
#include "heed/nn/stack.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/loss.h"

namespace heed {
namespace {

class Done final : public PendingOperation {
 public:
  void wait() override {}
};

// The first of two processes; the other one has the same numbers.
class Twin final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::unique_ptr<PendingOperation> start_sum(SharedFloats floats) override {
    ++started;
    if (on_start) on_start();
    for (float& value : floats.values) value *= 2;
    return std::make_unique<Done>();
  }
  std::unique_ptr<PendingOperation> start_sum_of_part(SharedFloats floats) override {
    const auto [begin, end] = part_of(std::ssize(floats.values), 0, 2);
    std::fill(floats.values.begin() + end, floats.values.end(), -1e9F);  // unspecified
    return start_sum({floats.values.subspan(0, static_cast<std::size_t>(end - begin)), nullptr});
  }
  std::unique_ptr<PendingOperation> start_gather_of_parts(SharedFloats floats) override {
    const auto [begin, end] = part_of(std::ssize(floats.values), 0, 2);
    std::fill(floats.values.begin() + end, floats.values.end(), 7.0F);
    return std::make_unique<Done>();
  }
  void broadcast(std::span<std::byte>) override {}
  std::vector<std::string> gather(std::string_view bytes) override {
    return {std::string(bytes), std::string(bytes)};
  }
  Traffic traffic() const override { return {}; }
  void end_all(int) override {}

  int started = 0;
  std::function<void()> on_start;
};

// Embeddings at the bottom, a table that is tied as input and output, and three layers, of which two have the
// same weights.
class BucketLearner {
 public:
  BucketLearner() {
    bottom_ = weight({kWords, kWidth});
    table_ = weight({kWords, kWidth});
    const Layer once = layer(), twice = layer();
    stack_.layers = {twice, once, twice};
    unused_ = weight({5});
  }
  Tensor loss(bool checkpointing) const {
    const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}, {2, 3});
    Context context{.gradient_checkpointing = checkpointing};
    Pass pass(context);
    return linear_cross_entropy(stack_(add(embedding(table_, ids), embedding(bottom_, ids)), pass), table_,
                                {}, ids);
  }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<std::vector<float>> gradients() const {
    std::vector<std::vector<float>> all;
    for (const Parameter& p : parameters_)
      all.push_back(p.tensor.grad().defined() ? p.tensor.grad().to_vector<float>() : std::vector<float>{});
    return all;
  }
  /// Whether the backward pass has reached the embeddings, where it ends.
  bool is_at_the_bottom() const { return bottom_.grad().defined(); }
  void clear() const {
    for (const Parameter& p : parameters_) p.tensor.zero_grad();
  }

 private:
  static constexpr std::int64_t kWords = 11, kWidth = 8;
  Tensor weight(const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    const RandomStream stream{7, parameters_.size()};
    for (std::int64_t i = 0; i < t.numel(); ++i)
      t.data<float>()[i] = stream.uniform(static_cast<std::uint64_t>(i)) - 0.5F;
    t.set_requires_grad();
    parameters_.push_back({.name = std::to_string(parameters_.size()), .tensor = t});
    return t;
  }
  Layer layer() {
    const FeedForward feed_forward{
        {weight({16, kWidth}), weight({16})}, {weight({kWidth, 16}), weight({kWidth})}, Activation::gelu};
    return {
        {pre_norm("feed_forward", {NormKind::layer, weight({kWidth}), weight({kWidth})}, feed_forward, 0)}};
  }

  std::vector<Parameter> parameters_;
  Tensor bottom_, table_, unused_;
  Stack stack_;
};

std::vector<std::vector<float>> doubled(std::vector<std::vector<float>> all) {
  for (auto& values : all)
    for (float& value : values) value *= 2;
  return all;
}

TEST(GradientBuckets, AreCompleteWhenTheySetOff) {
  for (const bool checkpointing : {false, true}) {
    for (const std::int64_t bytes : {1, 500, 1 << 20}) {  // a bucket each; some; one
      const BucketLearner learner;
      learner.loss(checkpointing).backward();
      const auto expected = doubled(learner.gradients());
      learner.clear();
      Twin world;
      GradientBuckets buckets(learner.parameters(), world, false, bytes);
      for (int step = 0; step < 2; ++step) {
        buckets.backward(learner.loss(checkpointing), true);
        buckets.finish();
        EXPECT_EQ(learner.gradients(), expected) << checkpointing << " " << bytes;
        learner.clear();
      }
    }
  }
}

TEST(GradientBuckets, SetOffDuringTheBackwardPass) {
  for (const bool checkpointing : {false, true}) {
    const BucketLearner learner;
    Twin world;
    GradientBuckets buckets(learner.parameters(), world, false, 1);
    bool early = false;
    world.on_start = [&] {
      if (world.started == 2) early = !learner.is_at_the_bottom();  // the first is the unused one
    };
    const Tensor loss = learner.loss(checkpointing);
    buckets.backward(loss, true);
    EXPECT_EQ(world.started, static_cast<int>(learner.parameters().size()));
    EXPECT_TRUE(early);
    buckets.finish();
  }
}

TEST(GradientBuckets, AccumulateBeforeTheyAddUp) {
  const BucketLearner learner;
  for (int i = 0; i < 3; ++i) learner.loss(false).backward();
  const auto expected = doubled(learner.gradients());
  learner.clear();
  Twin world;
  GradientBuckets buckets(learner.parameters(), world, false);
  for (int i = 0; i < 2; ++i) buckets.backward(learner.loss(false), false);
  EXPECT_EQ(world.started, 0);
  buckets.backward(learner.loss(false), true);
  buckets.finish();
  EXPECT_EQ(learner.gradients(), expected);
}

TEST(GradientBuckets, AProcessWithoutRowsAddsNothing) {
  const BucketLearner learner;
  Twin world;
  GradientBuckets buckets(learner.parameters(), world, false);
  buckets.backward(Tensor(), true);
  buckets.finish();
  for (const Parameter& p : learner.parameters()) EXPECT_FALSE(p.tensor.grad().defined()) << p.name;
}

TEST(GradientBuckets, ShardsCoverHalfOfEveryBucket) {
  const BucketLearner learner;
  learner.loss(false).backward();
  const auto expected = doubled(learner.gradients());
  learner.clear();
  Twin world;
  GradientBuckets buckets(learner.parameters(), world, true, 500);
  AdamW optimizer(learner.parameters(), {}, buckets.own());
  std::int64_t all = 0;
  for (const Parameter& p : learner.parameters()) all += p.tensor.numel();
  EXPECT_NEAR(static_cast<double>(optimizer.state_bytes()), 4.0 * static_cast<double>(all), 4.0 * 8);
  buckets.backward(learner.loss(false), true);
  buckets.finish();
  const auto gradients = learner.gradients();
  double squares = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].empty()) continue;
    for (std::int64_t j = buckets.own()[i].begin; j < buckets.own()[i].end; ++j) {
      const float value = gradients[i][static_cast<std::size_t>(j)];
      EXPECT_EQ(value, expected[i][static_cast<std::size_t>(j)]);
      squares += static_cast<double>(value) * value;
    }
  }
  EXPECT_NEAR(buckets.norm(), std::sqrt(2 * squares), 1e-5);
  optimizer.step(1e-2);
  learner.clear();
  buckets.share_parameters();
  const TensorMap state = buckets.whole_state(optimizer);
  for (std::size_t i = 0; i < learner.parameters().size(); ++i) {
    const Parameter& p = learner.parameters()[i];
    const auto [begin, end] = buckets.own()[i];
    EXPECT_EQ(state.at("m." + p.name).shape(), p.tensor.shape());
    for (std::int64_t j = 0; j < p.tensor.numel(); ++j)
      EXPECT_EQ(p.tensor.data<float>()[j] == 7.0F, j < begin || j >= end) << p.name << " " << j;
  }
}

}  // namespace
}  // namespace heed
