// Compares and shares what all processes of a run have.
#include "train/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "train/model_source.h"

namespace heed {

void check_same_training(Communicator& world, const TrainingTask& task) {
  if (world.size() == 1) return;
  std::string table;
  for (const Parameter& p : task.parameters())
    table += fmt::format("{} {}\n", p.name, p.tensor.shape().str());
  check_same(world, "train", "parameters", table);
  check_same(world, "train", "data", "data of fingerprint " + task.fingerprint());
}

void check_same_weights(Communicator& world, const std::vector<Parameter>& parameters) {
  if (world.size() == 1) return;
  Fingerprint hash;
  for (const Parameter& p : parameters) {
    const std::size_t numbers = static_cast<std::size_t>(p.tensor.numel());
    if (p.tensor.dtype() == DType::bf16) {
      for (const bfloat16 weight : std::span(p.tensor.data<bfloat16>(), numbers))
        hash.add(std::uint64_t{weight.bits});
    } else {
      hash.add(std::span(reinterpret_cast<const std::int32_t*>(p.tensor.data<float>()), numbers));
    }
  }
  check_same(world, "train",
             "weights (train.shard_optimizer = true keeps them so on processors of different kinds)",
             "weights of fingerprint " + hash.text());
}

void share_weights(Communicator& world, const std::vector<Parameter>& parameters) {
  if (world.size() == 1) return;
  for (const Parameter& p : parameters) {
    dispatch_float("train", p.tensor.dtype(), [&]<class T>() {
      const std::span values(p.tensor.data<T>(), static_cast<std::size_t>(p.tensor.numel()));
      world.broadcast(std::as_writable_bytes(values));
    });
  }
}

std::string memory_report(Communicator& world, const std::vector<Parameter>& parameters,
                          const AdamW& optimizer) {
  std::int64_t weights = 0, gradients = 0;
  for (const Parameter& p : parameters) {
    weights += p.tensor.numel() * static_cast<std::int64_t>(size_of(p.tensor.dtype()));
    gradients += p.tensor.numel() * static_cast<std::int64_t>(sizeof(float));
  }
  const std::vector<std::int64_t> states = gather_values(world, std::vector{optimizer.state_bytes()});
  return fmt::format(
      "each process: {} bytes of trained weights, {} of gradients, {} to {} of the optimizer's state",
      weights, gradients, *std::min_element(states.begin(), states.end()),
      *std::max_element(states.begin(), states.end()));
}

}  // namespace heed
