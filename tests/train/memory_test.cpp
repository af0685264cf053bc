// Memory of training steps: after the first one, no memory is requested from the system, and batches of ever
// new shapes do not accumulate memory.
#include <gtest/gtest.h>

#include "heed/buffer.h"
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/stack.h"
#include "heed/ops/embedding.h"
#include "heed/ops/loss.h"
#include "heed/train/adamw.h"

namespace heed {
namespace {

// A small decoder with a vocabulary of 3000, d_model 128 and tied embeddings, and its optimizer.
class Learner {
 public:
  explicit Learner(int layers = 2) {
    table_ = weight({kWords, kWidth});
    for (int i = 0; i < layers; ++i) stack_.layers.push_back(layer());
    stack_.final_norm = norm();
    optimizer_.emplace(parameters_, AdamWOptions{});
  }

  void step(std::int64_t batch, std::int64_t time, bool checkpointing = false) {
    Tensor ids = Tensor::empty({batch, time}, DType::i64);
    for (std::int64_t i = 0; i < ids.numel(); ++i) ids.data<std::int64_t>()[i] = i * 7919 % kWords;
    Context context{.gradient_checkpointing = checkpointing};
    Pass pass(context);
    pass.self.causal = true;
    linear_cross_entropy(stack_(embedding(table_, ids), pass), table_, {}, ids).backward();
    optimizer_->step(1e-3);
    optimizer_->zero_grad();
  }

 private:
  static constexpr std::int64_t kWords = 3000, kWidth = 128;

  Tensor weight(const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    const RandomStream stream{7, parameters_.size()};
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      t.data<float>()[i] = 0.1f * (stream.uniform(static_cast<std::uint64_t>(i)) - 0.5f);
    }
    return parameter(t);
  }
  Tensor parameter(Tensor t) {
    t.set_requires_grad();
    parameters_.push_back({.name = std::to_string(parameters_.size()), .tensor = t});
    return t;
  }
  Linear linear(std::int64_t out, std::int64_t in) {
    return {weight({out, in}), parameter(Tensor::zeros({out}))};
  }
  Norm norm() {
    return {NormKind::layer, parameter(Tensor::full({kWidth}, 1)), parameter(Tensor::zeros({kWidth}))};
  }
  Layer layer() {
    const SelfAttention attention{{linear(kWidth, kWidth), linear(kWidth, kWidth), linear(kWidth, kWidth),
                                   linear(kWidth, kWidth), 4, 4}};
    const FeedForward feed_forward{linear(4 * kWidth, kWidth), linear(kWidth, 4 * kWidth), Activation::gelu};
    return {{pre_norm("attn", norm(), attention), pre_norm("feed_forward", norm(), feed_forward)}};
  }

  std::vector<Parameter> parameters_;
  Tensor table_;
  Stack stack_;
  std::optional<AdamW> optimizer_;
};

TEST(TrainingMemory, ComesFromTheSystemInTheFirstStepOnly) {
  Learner learner;
  learner.step(4, 64);
  const MemoryStatistics first = memory_statistics();
  for (int i = 0; i < 3; ++i) {
    reset_peak_memory();
    learner.step(4, 64);
    const MemoryStatistics now = memory_statistics();
    EXPECT_EQ(now.system_allocations, first.system_allocations);
    EXPECT_EQ(now.bytes_in_use, first.bytes_in_use);
    EXPECT_LE(now.peak_bytes, first.peak_bytes);
  }
}

TEST(TrainingMemory, BatchesOfEveryShapeStayWithinABound) {
  Learner learner;
  reset_peak_memory();
  for (std::int64_t i = 0; i < 12; ++i) learner.step(2 + i * 5 % 7, 16 + i * 13 % 50);
  const MemoryStatistics now = memory_statistics();
  EXPECT_LE(now.bytes_in_use + now.bytes_cached, now.peak_bytes + now.peak_bytes / 4 + (64 << 20));
}

TEST(TrainingMemory, GradientCheckpointingKeepsOneLayerAtATime) {
  const auto activations = [](bool checkpointing) {
    Learner learner(12);
    learner.step(1, 8);  // the optimizer's moments
    const std::size_t before = memory_statistics().bytes_in_use;
    reset_peak_memory();
    learner.step(8, 64, checkpointing);
    return memory_statistics().peak_bytes - before;
  };
  const std::size_t all = activations(false), some = activations(true);
  EXPECT_LT(some * 2, all) << some << " of " << all;
}

}  // namespace
}  // namespace heed
