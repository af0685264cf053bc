// Packs gradients into buckets and exchanges them.
#include "train/optimizer/gradient_buckets.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "tensor/impl.h"

namespace heed {
namespace {

// The members of each bucket: parameters from the last to the first, since backward() begins at the loss. One
// that fills a bucket has its own. Those that are stored in bf16 are apart from the others.
std::vector<std::vector<std::size_t>> members_of_buckets(const std::vector<Parameter>& parameters,
                                                         bool bf16_weights, std::int64_t bucket_bytes) {
  struct Last {
    std::size_t bucket = 0;
    std::int64_t bytes = 0;
  };
  std::array<Last, 2> last{Last{0, bucket_bytes}, Last{0, bucket_bytes}};
  std::vector<std::vector<std::size_t>> buckets;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    auto& [bucket, bytes] = last[bf16_weights && takes_bf16(parameters[i]) ? 1 : 0];
    const std::int64_t more = parameters[i].tensor.numel() * 4;
    if (bytes >= bucket_bytes || more >= bucket_bytes) {
      bucket = buckets.size();
      buckets.emplace_back();
      bytes = 0;
    }
    buckets[bucket].push_back(i);
    bytes += more;
  }
  return buckets;
}

std::vector<ElementRange> whole_of(const std::vector<Parameter>& parameters) {
  std::vector<ElementRange> ranges;
  for (const Parameter& p : parameters) ranges.push_back({0, p.tensor.numel()});
  return ranges;
}

// A block for each gradient: its parameter and number of rows, then for each row its index and its numbers.

void append_number(std::string& to, std::uint64_t number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint64_t take_number(std::string_view& from) {
  std::uint64_t number = 0;
  HEED_ASSERT(from.size() >= sizeof number, "rows end early");
  std::memcpy(&number, from.data(), sizeof number);
  from.remove_prefix(sizeof number);
  return number;
}

}  // namespace

GradientBuckets::GradientBuckets(const std::vector<Parameter>& parameters, Communicator& world, bool sharded,
                                 bool bf16_weights, std::int64_t bucket_bytes)
    : parameters_(parameters),
      world_(world),
      sharded_(sharded && world.size() > 1),
      bucket_of_(parameters.size()),
      offsets_(parameters.size()),
      own_(whole_of(parameters)),
      complete_(parameters.size()),
      present_(parameters.size()) {
  if (world.size() == 1) return;
  for (const std::vector<std::size_t>& members : members_of_buckets(parameters, bf16_weights, bucket_bytes)) {
    const bool narrow = bf16_weights && takes_bf16(parameters[members.front()]);
    std::int64_t count = 0;
    for (const std::size_t i : members) {
      const Parameter& p = parameters[i];
      if (p.tensor.dtype() != DType::f32) {
        throw Error(fmt::format("train: expected f32 parameters for several processes, got {} of {}", p.name,
                                name_of(p.tensor.dtype())));
      }
      index_[&TensorImpl::of(p.tensor)] = i;
      bucket_of_[i] = buckets_.size();
      offsets_[i] = count;
      count += p.tensor.numel();
    }
    // Two numbers of bf16 are exchanged as one float: every process's part begins at such a pair.
    const std::int64_t pairs = narrow ? 2 * world.size() : 1;
    count = (count + pairs - 1) / pairs * pairs;
    buckets_.push_back({members, narrow, count, Tensor(), std::ssize(members), nullptr});
    if (!sharded_) continue;
    const auto [begin, end] = part_of(count, world.rank(), world.size());
    for (const std::size_t i : members) {
      const std::int64_t numel = parameters[i].tensor.numel();
      own_[i] = {std::clamp<std::int64_t>(begin - offsets_[i], 0, numel),
                 std::clamp<std::int64_t>(end - offsets_[i], 0, numel)};
    }
  }
  order_.resize(buckets_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
}

float* GradientBuckets::numbers_of(Bucket& bucket) {
  if (!bucket.values.defined()) bucket.values = Tensor::zeros({bucket.count});
  return bucket.values.data<float>();
}

SharedFloats GradientBuckets::floats_of(Bucket& bucket) {
  return {{numbers_of(bucket), static_cast<std::size_t>(bucket.count)}, TensorImpl::shared(bucket.values)};
}

void GradientBuckets::backward(const Tensor& loss, bool last) {
  if (!loss.defined()) return;  // this process has no row of the batch
  if (world_.size() == 1 || !last) return loss.backward();
  const auto report = [this](const Tensor& leaf) {
    const auto found = index_.find(&TensorImpl::of(leaf));
    if (found != index_.end() && !complete_[found->second]) complete(found->second);
  };
  const LeafGradientListener listener(
      [this](const std::vector<Tensor>& leaves) {
        std::unordered_set<const TensorImpl*> reached;
        for (const Tensor& leaf : leaves) reached.insert(&TensorImpl::of(leaf));
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
          if (!reached.contains(&TensorImpl::of(parameters_[i].tensor))) complete(i);
        }
      },
      report, report);
  loss.backward();
}

void GradientBuckets::complete(std::size_t parameter) {
  pack(parameter);
  complete_[parameter] = true;
  if (--buckets_[bucket_of_[parameter]].missing == 0) completed_.push_back(bucket_of_[parameter]);
  while (next_ < order_.size() && buckets_[order_[next_]].missing == 0) set_off(buckets_[order_[next_++]]);
}

void GradientBuckets::pack(std::size_t parameter) {
  const Tensor& tensor = parameters_[parameter].tensor;
  numbers_of(buckets_[bucket_of_[parameter]]);  // makes them
  present_[parameter] = tensor.grad().defined() ? 1 : 0;
  if (tensor.grad().defined()) {
    sum_of(parameter).copy_from(tensor.grad());
  } else {
    sum_of(parameter).copy_from(broadcast_to(Tensor::zeros({}), tensor.shape()));
  }
  tensor.zero_grad();
}

void GradientBuckets::set_off(Bucket& bucket) {
  bucket.pending =
      sharded_ ? world_.start_sum_of_part(floats_of(bucket)) : world_.start_sum(floats_of(bucket));
}

void GradientBuckets::finish() {
  if (world_.size() == 1) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!complete_[i]) complete(i);  // this process had no row of the batch
  }
  const std::vector<double> present = world_.sum({present_.begin(), present_.end()});
  for (Bucket& bucket : buckets_) bucket.pending->wait();
  add_late_rows();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor parameter = parameters_[i].tensor;
    if (present[i] > 0) parameter.set_grad(sum_of(i));
  }
  if (!order_is_agreed_) agree_on_order();
  std::fill(complete_.begin(), complete_.end(), false);
  for (Bucket& bucket : buckets_) bucket.missing = std::ssize(bucket.members);
  completed_.clear();
  next_ = 0;
}

Tensor GradientBuckets::sum_of(std::size_t parameter) const {
  const Tensor& tensor = parameters_[parameter].tensor;
  const std::int64_t begin = offsets_[parameter];
  return reshape(slice(buckets_[bucket_of_[parameter]].values, 0, begin, begin + tensor.numel()),
                 tensor.shape());
}

void GradientBuckets::add_late_rows() {
  std::vector<Tensor> late(parameters_.size());
  std::string rows;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    late[i] = parameters_[i].tensor.grad();
    if (late[i].defined()) append_rows(rows, i, late[i]);
    parameters_[i].tensor.zero_grad();
  }
  // All-to-all, rows cost (N - 1) / N of all of them; the whole gradients, 2 (N - 1) / N of one process's.
  std::vector<double> sizes(parameters_.size() + 1);
  for (std::size_t i = 0; i < late.size(); ++i) sizes[i] = late[i].defined() ? 1 : 0;
  sizes.back() = static_cast<double>(rows.size());
  sizes = world_.sum(sizes);
  double whole = 0;
  for (std::size_t i = 0; i < late.size(); ++i)
    whole += sizes[i] > 0 ? 4.0 * static_cast<double>(parameters_[i].tensor.numel()) : 0;
  if (sizes.back() <= 2 * whole) {
    for (const std::string& one : world_.gather(rows))
      add_rows(one, [this](std::size_t i) { return sum_of(i); });
    return;
  }
  for (std::size_t i = 0; i < late.size(); ++i) {
    if (sizes[i] == 0) continue;
    const Shape& shape = parameters_[i].tensor.shape();
    const Tensor sum = late[i].defined() ? late[i].contiguous() : Tensor::zeros(shape);
    world_.start_sum({{sum.data<float>(), static_cast<std::size_t>(sum.numel())}, TensorImpl::shared(sum)})
        ->wait();
    const Tensor all = sum_of(i);
    all.copy_from(all + sum);
  }
}

void GradientBuckets::agree_on_order() {
  world_.broadcast(std::as_writable_bytes(std::span(completed_)));
  order_ = completed_;
  order_is_agreed_ = true;
}

double GradientBuckets::norm() const {
  const double squares = sum_of_gradient_squares(parameters_, own_);
  return std::sqrt(sharded_ ? world_.sum({squares})[0] : squares);
}

void GradientBuckets::exchange(DType of_matrices, const std::function<const void*(std::size_t)>& own,
                               const std::function<void(std::size_t, const void*)>& take) {
  const auto size_in = [&](const Bucket& bucket) {
    return static_cast<std::int64_t>(size_of(bucket.takes_bf16 ? of_matrices : DType::f32));
  };
  const auto place = [&](Bucket& bucket, std::size_t i, std::int64_t element) {
    return reinterpret_cast<std::byte*>(numbers_of(bucket)) + (offsets_[i] + element) * size_in(bucket);
  };
  for (Bucket& bucket : buckets_) {
    for (const std::size_t i : bucket.members) {
      const auto [begin, end] = own_[i];
      if (begin < end)
        std::memcpy(place(bucket, i, begin), own(i),
                    static_cast<std::size_t>((end - begin) * size_in(bucket)));
    }
    SharedFloats floats = floats_of(bucket);
    floats.values = floats.values.first(static_cast<std::size_t>(bucket.count * size_in(bucket) / 4));
    bucket.pending = world_.start_gather_of_parts(floats);
  }
  for (Bucket& bucket : buckets_) {
    bucket.pending->wait();
    for (const std::size_t i : bucket.members) take(i, place(bucket, i, 0));
  }
}

void GradientBuckets::share_parameters() {
  if (!sharded_) return;
  const auto size_in = [this](std::size_t i) { return size_of(parameters_[i].tensor.dtype()); };
  exchange(
      DType::bf16,
      [&](std::size_t i) {
        return static_cast<const std::byte*>(parameters_[i].tensor.raw_data()) +
               static_cast<std::size_t>(own_[i].begin) * size_in(i);
      },
      [&](std::size_t i, const void* numbers) {
        const Tensor& whole = parameters_[i].tensor;
        std::memcpy(whole.raw_data(), numbers, static_cast<std::size_t>(whole.numel()) * size_in(i));
      });
}

void GradientBuckets::gather_parts(const std::string& prefix, TensorMap& state) {
  TensorMap whole;
  const auto name = [&](std::size_t i) { return prefix + parameters_[i].name; };
  exchange(
      DType::f32,
      [&](std::size_t i) -> const void* {
        const auto part = state.find(name(i));
        return part != state.end() ? part->second.data<float>()
                                   : parameters_[i].tensor.data<float>() + own_[i].begin;
      },
      [&](std::size_t i, const void* numbers) {
        if (!world_.is_first() || !state.contains(name(i))) return;
        const Tensor tensor = Tensor::empty(parameters_[i].tensor.shape());
        std::memcpy(tensor.raw_data(), numbers, static_cast<std::size_t>(tensor.numel()) * sizeof(float));
        whole[name(i)] = tensor;
      });
  for (const auto& [key, tensor] : whole) state[key] = tensor;
}

TensorMap GradientBuckets::whole_state(const AdamW& optimizer) {
  TensorMap state = optimizer.state();
  if (!sharded_) return state;
  for (const char* moment : {"m.", "v."}) gather_parts(moment, state);
  return state;
}

TensorMap GradientBuckets::whole_masters(const AdamW& optimizer) {
  TensorMap masters = optimizer.masters();
  if (sharded_ && !masters.empty()) gather_parts("", masters);
  return masters;
}

void append_rows(std::string& to, std::size_t parameter, const Tensor& gradient) {
  const Tensor dense = gradient.contiguous();
  const std::int64_t columns = dense.size(1);
  const auto row = [&](std::int64_t i) { return dense.data<float>() + i * columns; };
  std::vector<std::int64_t> present;
  for (std::int64_t i = 0; i < dense.size(0); ++i) {
    if (std::any_of(row(i), row(i) + columns, [](float value) { return value != 0; })) present.push_back(i);
  }
  append_number(to, parameter);
  append_number(to, present.size());
  for (const std::int64_t i : present) {
    append_number(to, static_cast<std::uint64_t>(i));
    to.append(reinterpret_cast<const char*>(row(i)), static_cast<std::size_t>(columns) * sizeof(float));
  }
}

void add_rows(std::string_view from, const std::function<Tensor(std::size_t parameter)>& gradient_of) {
  std::vector<float> row;
  while (!from.empty()) {
    const Tensor gradient = gradient_of(take_number(from));
    row.resize(static_cast<std::size_t>(gradient.size(1)));
    const std::size_t bytes = row.size() * sizeof(float);
    for (std::uint64_t left = take_number(from); left > 0; --left) {
      float* to = gradient.data<float>() + take_number(from) * row.size();
      HEED_ASSERT(from.size() >= bytes, "rows end early");
      std::memcpy(row.data(), from.data(), bytes);
      from.remove_prefix(bytes);
      for (std::size_t i = 0; i < row.size(); ++i) to[i] += row[i];
    }
  }
}

}  // namespace heed
