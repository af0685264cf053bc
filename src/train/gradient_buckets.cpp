// Packs gradients into buckets and exchanges them.
#include "train/gradient_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "heed/error.h"
#include "heed/gradient_listener.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

// The members of each bucket: parameters from the last to the first, since backward() begins at the loss.
std::vector<std::vector<std::size_t>> members_of_buckets(const std::vector<Parameter>& parameters,
                                                         std::int64_t bucket_bytes) {
  std::vector<std::vector<std::size_t>> buckets;
  std::int64_t bytes = bucket_bytes;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    if (bytes >= bucket_bytes) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(i);
    bytes += parameters[i].tensor.numel() * 4;
  }
  return buckets;
}

std::vector<ElementRange> whole_of(const std::vector<Parameter>& parameters) {
  std::vector<ElementRange> ranges;
  for (const Parameter& p : parameters) ranges.push_back({0, p.tensor.numel()});
  return ranges;
}

}  // namespace

GradientBuckets::GradientBuckets(const std::vector<Parameter>& parameters, Communicator& world, bool sharded,
                                 std::int64_t bucket_bytes)
    : parameters_(parameters),
      world_(world),
      sharded_(sharded && world.size() > 1),
      bucket_of_(parameters.size()),
      offsets_(parameters.size()),
      own_(whole_of(parameters)),
      complete_(parameters.size()) {
  if (world.size() == 1) return;
  present_ = Tensor::zeros({static_cast<std::int64_t>(parameters.size())});
  for (const std::vector<std::size_t>& members : members_of_buckets(parameters, bucket_bytes)) {
    std::int64_t count = 0;
    for (const std::size_t i : members) {
      const Parameter& p = parameters[i];
      if (p.tensor.dtype() != DType::f32) {
        throw Error(fmt::format("train: expected f32 parameters for several processes, got {} of {}", p.name,
                                name_of(p.tensor.dtype())));
      }
      index_[p.tensor.impl()] = i;
      bucket_of_[i] = buckets_.size();
      offsets_[i] = count;
      count += p.tensor.numel();
    }
    buckets_.push_back({members, Tensor::zeros({count}), 0, nullptr});
    if (!sharded_) continue;
    const auto [begin, end] = part_of(count, world.rank(), world.size());
    for (const std::size_t i : members) {
      const std::int64_t numel = parameters[i].tensor.numel();
      own_[i] = {std::clamp<std::int64_t>(begin - offsets_[i], 0, numel),
                 std::clamp<std::int64_t>(end - offsets_[i], 0, numel)};
    }
  }
}

SharedFloats GradientBuckets::floats_of(const Bucket& bucket) {
  return {{bucket.values.data<float>(), static_cast<std::size_t>(bucket.values.numel())},
          bucket.values.shared_impl()};
}

void GradientBuckets::backward(const Tensor& loss, bool last) {
  if (!loss.defined()) return;  // this process has no row of the batch
  if (world_.size() == 1 || !last) return loss.backward();
  const LeafGradientListener listener(
      [this](const std::vector<Tensor>& leaves) {
        std::unordered_set<const TensorImpl*> reached;
        for (const Tensor& leaf : leaves) reached.insert(leaf.impl());
        std::fill(complete_.begin(), complete_.end(), false);
        for (Bucket& bucket : buckets_) bucket.missing = static_cast<std::int64_t>(bucket.members.size());
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
          if (!reached.contains(parameters_[i].tensor.impl())) complete(i);
        }
      },
      [this](const Tensor& leaf) {
        const auto found = index_.find(leaf.impl());
        if (found != index_.end()) complete(found->second);
      });
  loss.backward();
}

void GradientBuckets::complete(std::size_t parameter) {
  HEED_ASSERT(!complete_[parameter], "a gradient was completed twice");
  complete_[parameter] = true;
  --buckets_[bucket_of_[parameter]].missing;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) set_off(buckets_[next_++]);
}

void GradientBuckets::set_off(Bucket& bucket) {
  float* to = bucket.values.data<float>();
  for (const std::size_t i : bucket.members) {
    const Tensor& parameter = parameters_[i].tensor;
    const bool present = parameter.grad().defined();
    present_.data<float>()[i] = present ? 1.0F : 0.0F;
    if (present) {
      const Tensor gradient = parameter.grad().contiguous();
      std::copy_n(gradient.data<float>(), gradient.numel(), to + offsets_[i]);
    } else {
      std::fill_n(to + offsets_[i], parameter.numel(), 0.0F);
    }
    parameter.zero_grad();
  }
  bucket.pending =
      sharded_ ? world_.start_sum_of_part(floats_of(bucket)) : world_.start_sum(floats_of(bucket));
}

void GradientBuckets::finish() {
  if (world_.size() == 1) return;
  while (next_ < buckets_.size()) set_off(buckets_[next_++]);
  next_ = 0;
  const auto count = static_cast<std::size_t>(present_.numel());
  const auto present = world_.start_sum({{present_.data<float>(), count}, present_.shared_impl()});
  for (Bucket& bucket : buckets_) bucket.pending->wait();
  present->wait();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (present_.data<float>()[i] == 0) continue;
    const Tensor& values = buckets_[bucket_of_[i]].values;
    const std::int64_t begin = offsets_[i], end = begin + parameters_[i].tensor.numel();
    Tensor parameter = parameters_[i].tensor;
    parameter.set_grad(reshape(slice(values, 0, begin, end), parameter.shape()));
  }
}

double GradientBuckets::norm() const {
  const double squares = sum_of_gradient_squares(parameters_, own_);
  return std::sqrt(sharded_ ? world_.sum({squares})[0] : squares);
}

template <class PointerOf, class Take>
void GradientBuckets::exchange(const PointerOf& pointer_of, const Take& take) {
  for (Bucket& bucket : buckets_) {
    for (const std::size_t i : bucket.members) {
      const ElementRange range = own_[i];
      if (range.begin < range.end)
        std::copy_n(pointer_of(i), range.end - range.begin,
                    bucket.values.data<float>() + offsets_[i] + range.begin);
    }
    bucket.pending = world_.start_gather_of_parts(floats_of(bucket));
  }
  for (Bucket& bucket : buckets_) {
    bucket.pending->wait();
    for (const std::size_t i : bucket.members) take(i, bucket.values.data<float>() + offsets_[i]);
  }
}

void GradientBuckets::share_parameters() {
  if (!sharded_) return;
  exchange([&](std::size_t i) { return parameters_[i].tensor.data<float>() + own_[i].begin; },
           [&](std::size_t i, const float* values) {
             std::copy_n(values, parameters_[i].tensor.numel(), parameters_[i].tensor.data<float>());
           });
}

TensorMap GradientBuckets::whole_state(const AdamW& optimizer) {
  TensorMap state = optimizer.state();
  if (!sharded_) return state;
  for (const char* moment : {"m.", "v."}) {
    TensorMap whole;
    const auto name = [&](std::size_t i) { return moment + parameters_[i].name; };
    exchange([&](std::size_t i) { return state.at(name(i)).data<float>(); },
             [&](std::size_t i, const float* values) {
               if (!world_.is_first()) return;
               Tensor tensor = Tensor::empty(parameters_[i].tensor.shape());
               std::copy_n(values, tensor.numel(), tensor.data<float>());
               whole[name(i)] = tensor;
             });
    for (const auto& [key, tensor] : whole) state[key] = tensor;
  }
  return state;
}

}  // namespace heed
