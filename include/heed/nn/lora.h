// LoRA (Hu et al. 2021, "LoRA: low-rank adaptation of large language models"): a low-rank addition to the map
// of a weight, or to the rows of an embedding table, which stays as it is.
#pragma once

#include <cstdint>
#include <optional>

#include "heed/export.h"
#include "heed/nn/context.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Adds scale * B A dropout(x) to a linear map of x; or, with in = V and out = D, scale * (B A)^T[ids] to the
/// rows of a table [V, D], without dropout, as PEFT does.
struct LoraAdapter {
  Tensor a;            // f32 [r, in]
  Tensor b;            // f32 [out, r]
  double scale = 1.0;  ///< alpha / r, or alpha / sqrt(r) (Kalajdzievski 2023, "Rank-stabilized LoRA")
  double dropout = 0.0;
  /// x [..., in], result [..., out].
  Tensor operator()(const Tensor& x) const;
  /// factor times the addition to the rows of `ids` i64 [...]; result [..., D]. The column of A of
  /// `padding_id` gets no gradient.
  Tensor rows(const Tensor& ids, double factor, std::optional<std::int64_t> padding_id) const;
};

/// While an object of this class exists, adapters drop out on this thread, with the context's generator.
/// Does nothing unless the context is training. Threads: each has its own.
class AdapterDropout {
 public:
  explicit AdapterDropout(const Context& context);
  ~AdapterDropout();
  static bool active();  ///< on this thread
  AdapterDropout(const AdapterDropout&) = delete;
  AdapterDropout& operator=(const AdapterDropout&) = delete;

 private:
  Generator* before_;
};

}  // namespace heed
