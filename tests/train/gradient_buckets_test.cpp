// Buckets of gradients: complete when they set off, also with weights that several layers share and layers
// that are computed again, and parts for a sharded optimizer.
#include "train/optimizer/gradient_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

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
    sizes.push_back(floats.values.size());
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
  std::vector<std::size_t> sizes;  // of the sums, in their order
  std::function<void()> on_start;
};

// Embeddings at the bottom, a table that is tied as input and output, and three layers, of which two have the
// same weights.
class BucketLearner {
 public:
  static constexpr std::size_t kTable = 1;  // the tied table among parameters()
  static constexpr std::int64_t kWords = 11, kWidth = 8;
  BucketLearner() {
    bottom_ = weight({kWords, kWidth});
    table_ = weight({kWords, kWidth});
    const Layer once = layer(), twice = layer();
    stack_.layers = {twice, once, twice};
    unused_ = weight({5});
  }
  /// Of the words 0 to count - 1.
  Tensor loss(bool checkpointing, std::int64_t count = 6) const {
    std::vector<std::int64_t> words(static_cast<std::size_t>(count));
    std::iota(words.begin(), words.end(), std::int64_t{0});
    const Tensor ids = Tensor::from(words, {1, count});
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

// The tied table adds up its rows after its other gradient: the same numbers, rounded in another order.
void expect_gradients(const BucketLearner& learner, const std::vector<std::vector<float>>& expected) {
  const auto gradients = learner.gradients();
  ASSERT_EQ(gradients.size(), expected.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (i != BucketLearner::kTable) {
      EXPECT_EQ(gradients[i], expected[i]) << i;
      continue;
    }
    ASSERT_EQ(gradients[i].size(), expected[i].size());
    for (std::size_t j = 0; j < gradients[i].size(); ++j)
      EXPECT_NEAR(gradients[i][j], expected[i][j], 1e-6F * (1 + std::abs(expected[i][j]))) << j;
  }
}

TEST(GradientBuckets, AreCompleteWhenTheySetOff) {
  for (const bool checkpointing : {false, true}) {
    for (const std::int64_t bytes : {1, 500, 1 << 20}) {  // a bucket each; some; one
      const BucketLearner learner;
      learner.loss(checkpointing).backward();
      const auto expected = doubled(learner.gradients());
      learner.clear();
      Twin world;
      GradientBuckets buckets(learner.parameters(), world, false, false, bytes);
      for (int step = 0; step < 2; ++step) {
        buckets.backward(learner.loss(checkpointing), true);
        buckets.finish();
        SCOPED_TRACE(std::to_string(checkpointing) + " " + std::to_string(bytes));
        expect_gradients(learner, expected);
        learner.clear();
      }
    }
  }
}

TEST(GradientBuckets, SetOffDuringTheBackwardPass) {
  for (const bool checkpointing : {false, true}) {
    const BucketLearner learner;
    Twin world;
    GradientBuckets buckets(learner.parameters(), world, false, false, 1);
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

TEST(GradientBuckets, ATiedTableSetsOffFirstAndItsRowsFollow) {
  const BucketLearner learner;
  const auto unused = static_cast<std::size_t>(learner.parameters().back().tensor.numel());
  const auto table = static_cast<std::size_t>(learner.parameters()[BucketLearner::kTable].tensor.numel());
  Twin world;
  GradientBuckets buckets(learner.parameters(), world, false, false, 1);
  buckets.backward(learner.loss(false), true);
  buckets.finish();
  learner.clear();
  bool early = false;
  world.sizes.clear();
  world.on_start = [&] {
    if (world.sizes.size() == 2) early = !learner.is_at_the_bottom();
  };
  buckets.backward(learner.loss(false), true);
  EXPECT_THAT(std::span(world.sizes).first(2), testing::ElementsAre(unused, table));
  EXPECT_TRUE(early);
  buckets.finish();
}

TEST(GradientBuckets, ManyLateRowsAreAddedUpAsAWhole) {
  const BucketLearner learner;
  learner.loss(false, BucketLearner::kWords).backward();
  const auto expected = doubled(learner.gradients());
  learner.clear();
  Twin world;
  GradientBuckets buckets(learner.parameters(), world, false, false, 1);
  buckets.backward(learner.loss(false, BucketLearner::kWords), true);
  const int before = world.started;
  buckets.finish();
  EXPECT_EQ(world.started, before + 1);
  expect_gradients(learner, expected);
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
  expect_gradients(learner, expected);
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
  GradientBuckets buckets(learner.parameters(), world, true, false, 500);
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
      const float whole = expected[i][static_cast<std::size_t>(j)];
      EXPECT_NEAR(value, whole, i == BucketLearner::kTable ? 1e-6F * (1 + std::abs(whole)) : 0.0F);
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

// Stored in bf16, matrices are exchanged in it, and their masters in f32.
TEST(GradientBuckets, ShardsOfBf16Weights) {
  const BucketLearner learner;
  Twin world;
  GradientBuckets buckets(learner.parameters(), world, true, true, 500);
  AdamW optimizer(learner.parameters(), {.bf16_weights = true}, buckets.own());
  buckets.backward(learner.loss(false), true);
  buckets.finish();
  optimizer.step(1e-2);
  std::vector<std::vector<float>> own;
  for (const Parameter& p : learner.parameters()) own.push_back(p.tensor.to(DType::f32).to_vector<float>());
  learner.clear();
  buckets.share_parameters();
  const TensorMap masters = buckets.whole_masters(optimizer), parts = optimizer.masters();
  for (std::size_t i = 0; i < learner.parameters().size(); ++i) {
    const Parameter& p = learner.parameters()[i];
    const bool matrix = p.tensor.rank() > 1;
    ASSERT_EQ(p.tensor.dtype(), matrix ? DType::bf16 : DType::f32);
    EXPECT_EQ(masters.contains(p.name), matrix);
    const auto now = p.tensor.to(DType::f32).to_vector<float>();
    const auto [begin, end] = buckets.own()[i];
    for (std::int64_t j = 0; j < p.tensor.numel(); ++j) {
      const auto at = static_cast<std::size_t>(j);
      const bool mine = j >= begin && j < end;
      if (mine) {
        EXPECT_EQ(now[at], own[i][at]) << p.name;
      } else {
        EXPECT_TRUE(now[at] == 7 || (matrix && now[at] == 0)) << p.name;  // the halves of the twin's float 7
      }
      if (!matrix) continue;
      const float master = masters.at(p.name).data<float>()[j];
      EXPECT_EQ(master, mine ? parts.at(p.name).data<float>()[j - begin] : 7.0F) << p.name;
      EXPECT_TRUE(!mine || static_cast<float>(bfloat16(master)) == now[at]) << p.name;
    }
  }
}

}  // namespace
}  // namespace heed
