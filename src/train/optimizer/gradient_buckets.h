// GradientBuckets: the gradients of all processes are added up in buckets, whose all-reduce starts while
// backward() still computes those of earlier layers. Where only lookups will still add to a table, it starts
// before them, and finish() exchanges the few rows that they add. With a sharded optimizer (Rajbhandari et
// al. 2020, "ZeRO", stage 1), each process receives the sum of its part of every bucket only, updates these
// parameters, and sends them to the others.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heed/distributed/communicator.h"
#include "heed/tensor.h"
#include "heed/train/adamw.h"

namespace heed {

class GradientBuckets {
 public:
  /// Of one process, all functions do nothing but backward(). `bf16_weights` as the optimizer's, which is
  /// made later. Throws Error if parameters of several processes are not f32.
  GradientBuckets(const std::vector<Parameter>& parameters, Communicator& world, bool sharded,
                  bool bf16_weights = false, std::int64_t bucket_bytes = kBucketBytes);

  /// The elements of each parameter that this process updates.
  const std::vector<ElementRange>& own() const { return own_; }

  /// loss.backward(). In a step's `last` one, the all-reduce of a bucket starts as soon as its gradients are
  /// complete.
  void backward(const Tensor& loss, bool last);
  /// Makes every gradient the sum over all processes: in parameters that have one on any process, and, of a
  /// sharded optimizer, in own() only. Until the next backward(), gradients share the buckets' memory.
  void finish();
  /// The global norm of the gradients after finish().
  double norm() const;
  /// Of a sharded optimizer: sends own() of all parameters to the others, after the optimizer's step.
  void share_parameters();
  /// Returns the optimizer's state as that of one process would be; of a sharded one, in process 0 only.
  TensorMap whole_state(const AdamW& optimizer);
  /// The same of the master copies of bf16 weights.
  TensorMap whole_masters(const AdamW& optimizer);

 private:
  static constexpr std::int64_t kBucketBytes = std::int64_t{4} << 20;
  struct Bucket {
    std::vector<std::size_t> members;  // parameters, in the order of memory
    bool takes_bf16 = false;           // all members are stored in bf16
    std::int64_t count = 0;            // of the members' numbers
    Tensor values;                     // f32, all members one after the other; made when it is first needed
    std::int64_t missing = 0;          // members whose gradients are not complete
    std::unique_ptr<PendingOperation> pending;
  };
  void complete(std::size_t parameter);
  /// Moves the gradient to its place in the bucket.
  void pack(std::size_t parameter);
  void set_off(Bucket& bucket);
  /// Sets the order of setting off to the one in which process 0 completed the buckets.
  void agree_on_order();
  /// Adds what lookups have added to gradients after the all-reduce of these had started, on all processes.
  void add_late_rows();
  Tensor sum_of(std::size_t parameter) const;
  /// Exchanges the numbers of own() of all parameters, from own(parameter) on, and hands those of the whole
  /// parameter to take(parameter, numbers). They are f32, in the matrices of bf16 weights `of_matrices`.
  void exchange(DType of_matrices, const std::function<const void*(std::size_t)>& own,
                const std::function<void(std::size_t, const void*)>& take);
  /// Replaces the parts PREFIX + name in `state` by whole tensors, in process 0.
  void gather_parts(const std::string& prefix, TensorMap& state);
  static float* numbers_of(Bucket& bucket);
  static SharedFloats floats_of(Bucket& bucket);

  const std::vector<Parameter>& parameters_;
  Communicator& world_;
  bool sharded_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> order_;      // of setting off: the same on all processes
  std::vector<std::size_t> completed_;  // buckets of this step, in the order of completion
  bool order_is_agreed_ = false;
  std::vector<std::size_t> bucket_of_;  // of each parameter
  std::vector<std::int64_t> offsets_;   // of each parameter in its bucket
  std::vector<ElementRange> own_;       // of each parameter
  std::vector<bool> complete_;          // of each parameter, in this step
  std::vector<char> present_;           // of each parameter: whether this process has a gradient
  std::size_t next_ = 0;                // in order_: bucket whose all-reduce starts next
  std::unordered_map<const TensorImpl*, std::size_t> index_;
};

// Rows of gradients that came after the all-reduce of the rest of their gradient had started: those of a
// table that is looked up at the bottom of a model and multiplied with at its top. As bytes, for other
// processes.

/// Appends the rows of `gradient` f32 [rows, columns] that are not zero, as those of `parameter`.
void append_rows(std::string& to, std::size_t parameter, const Tensor& gradient);

/// Adds all rows of `from` to the gradients: gradient_of(parameter) is f32, with the shape that was appended.
void add_rows(std::string_view from, const std::function<Tensor(std::size_t parameter)>& gradient_of);

}  // namespace heed
