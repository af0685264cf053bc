// What LLaMA and the families after it share: RMS norms before attention and a gated feed-forward, rotary
// positions, grouped heads, the names of their tensors. A family reads its config into a shape; table and
// parts follow from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/nn/rotary.h"
#include "models/decoder.h"

namespace heed {

struct LlamaShape {
  std::int64_t vocab_size = 0, width = 0, inner = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::string activation = "silu";
  double norm_eps = 1e-6, attention_dropout = 0;
  bool tied = false, qkv_bias = false, out_bias = false, mlp_bias = false;
  std::vector<std::int64_t> windows;    // per layer, 0 where all keys are seen
  std::optional<std::int64_t> padding;  // the id whose lookups teach its row nothing
  std::int64_t positions = 0;           // of training
  RotaryOptions rotary;

  /// The keys all these families have. `kv_heads_default` 0 stands for as many as heads.
  static LlamaShape parse(const Config& json, std::int64_t kv_heads_default);
};

using LlamaShapeOf = LlamaShape (*)(const Config&);

std::unique_ptr<DecoderModel> load_llama_like(const std::filesystem::path& directory, DType dtype,
                                              LlamaShapeOf shape_of);
std::unique_ptr<DecoderModel> make_llama_like(const Config& config, Generator& generator,
                                              LlamaShapeOf shape_of);

}  // namespace heed
