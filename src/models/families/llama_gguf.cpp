// Metadata of GGUF files from the configs of LLaMA-like models.
#include "models/families/llama_common.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "io/gguf_tensors.h"

namespace heed {
namespace {

struct GgufFamily {
  const char* model_type;
  const char* architecture;
};
constexpr GgufFamily kGgufFamilies[] = {
    {"gemma2", "gemma2"}, {"gemma3_text", "gemma3"}, {"granite", "granite"},    {"llama", "llama"},
    {"mistral", "llama"}, {"mixtral", "llama"},      {"olmo2", "olmo2"},        {"phi3", "phi3"},
    {"qwen2", "qwen2"},   {"qwen3", "qwen3"},        {"qwen3_moe", "qwen3moe"}, {"smollm3", "smollm3"},
};

class LlamaGguf {
 public:
  LlamaGguf(const LlamaConfig& config, const std::string& family, const std::string& where)
      : c(config), family_(family), where_(where) {}

  GgufModel make();

 private:
  std::string key(const char* name) const { return to.key(name); }
  void integer(const char* name, std::int64_t value) { to.values.integer(key(name), value); }
  void number(const char* name, double value) { to.values.number(key(name), value); }
  void keep(bool kept, const char* setting, const std::string& expected) const {
    to.keep(kept, where_, setting, expected);
  }
  bool is(const char* architecture) const { return to.architecture == architecture; }
  bool is_gemma() const { return is("gemma2") || is("gemma3"); }

  void put_scaling();
  void put_windows();
  void put_experts();
  void put_factors(const char* name, const std::vector<double>& factors) {
    to.factors.emplace_back(name, std::vector<float>(factors.begin(), factors.end()));
  }
  void check() const;

  const LlamaConfig& c;
  std::string family_, where_;
  GgufModel to;
};

void LlamaGguf::put_scaling() {
  const RotaryScaling& s = c.rotary.scaling;
  const auto original = [&] { integer("rope.scaling.original_context_length", s.original_length); };
  const auto type = [&](const char* name) { to.values.text(key("rope.scaling.type"), name); };
  switch (s.kind) {
    case RotaryScalingKind::none:
      if (is("phi3")) integer("rope.scaling.original_context_length", c.positions);
      return;
    case RotaryScalingKind::linear: type("linear"); return number("rope.scaling.factor", s.factor);
    case RotaryScalingKind::yarn:
      keep(s.truncate && !s.mscale && !s.mscale_all_dim, "rope_scaling",
           "yarn without truncate, mscale and mscale_all_dim");
      type("yarn");
      number("rope.scaling.factor", s.factor);
      original();
      if (s.attention_factor) number("rope.scaling.yarn_attn_factor", *s.attention_factor);
      if (s.beta_fast != RotaryScaling{}.beta_fast) number("rope.scaling.yarn_beta_fast", s.beta_fast);
      if (s.beta_slow != RotaryScaling{}.beta_slow) number("rope.scaling.yarn_beta_slow", s.beta_slow);
      return;
    case RotaryScalingKind::llama3: {
      std::vector<double> factors;
      for (std::int64_t i = 0; i < c.rotary.dim / 2; ++i)
        factors.push_back(io::gguf_llama3_factor(c.rotary.theta, i, c.rotary.dim, s.factor, s.low_freq_factor,
                                                 s.high_freq_factor, static_cast<double>(s.original_length)));
      return put_factors("rope_freqs.weight", factors);
    }
    case RotaryScalingKind::longrope:
      if (s.short_factor == s.long_factor && rotary_attention_factor(s) == 1)
        return put_factors("rope_freqs.weight", s.long_factor);
      keep(is("phi3"), "rope_scaling", "another kind than longrope");
      original();
      number("rope.scaling.attn_factor", rotary_attention_factor(s));
      put_factors("rope_factors_long.weight", s.long_factor);
      return put_factors("rope_factors_short.weight", s.short_factor);
    default: keep(false, "rope_scaling", "none, linear, yarn, llama3 or longrope");
  }
}

void LlamaGguf::put_windows() {
  const std::int64_t window = *std::max_element(c.windows.begin(), c.windows.end());
  const auto slides = [&](auto in_layer) {
    for (std::size_t i = 0; i < c.windows.size(); ++i) {
      const bool fits = c.windows[i] == (in_layer(i) ? window : 0);
      keep(fits, "layer_types", "windows in the layers that have them in " + to.architecture);
    }
  };
  if (is("gemma2")) {
    slides([](std::size_t i) { return i % 2 == 0; });
    return integer("attention.sliding_window", window);
  }
  if (is("gemma3")) {
    if (window == 0) return;
    slides([](std::size_t i) { return i % 6 != 5; });
    number("rope.freq_base_swa", c.window_rotary->theta);
    return integer("attention.sliding_window", window);
  }
  if (is("phi3")) {
    slides([](std::size_t) { return true; });
    return integer("attention.sliding_window", window);
  }
  keep(window == 0 || window >= c.positions, "sliding_window", "none");
}

void LlamaGguf::put_experts() {
  const ExpertsConfig& e = c.experts;
  const bool all = std::all_of(e.layers.begin(), e.layers.end(), [](bool has) { return has; });
  keep(all, "mlp_only_layers", "experts in all layers");
  integer("expert_count", e.count);
  integer("expert_used_count", e.chosen);
  keep(e.normalize, "norm_topk_prob", "true");
  if (is("qwen3moe")) integer("expert_feed_forward_length", e.d_ff);
}

void LlamaGguf::check() const {
  const char* activation = is_gemma() ? "gelu_pytorch_tanh" : "silu";
  keep(c.activation == activation, is_gemma() ? "hidden_activation" : "hidden_act", activation);
  keep(!c.headless, "architectures", "a model with its output map");
  if (is("smollm3")) {
    for (std::size_t i = 0; i < c.unrotated.size(); ++i)
      keep(c.unrotated[i] == (i % 4 == 3), "no_rope_layers", "every fourth layer");
  }
  if (is_gemma()) {  // whose scale is that of a head's size, but for the largest models
    const bool largest = c.layers == (is("gemma2") ? 46 : 62);
    const std::int64_t scalar = largest ? c.d_model / c.heads : c.head_dim;
    const double scale = 1 / std::sqrt(static_cast<double>(scalar));
    keep(std::abs(*c.attention_scale - scale) <= 1e-6 * scale, "query_pre_attn_scalar",
         std::to_string(scalar));
  }
}

GgufModel LlamaGguf::make() {
  const auto found = std::find_if(std::begin(kGgufFamilies), std::end(kGgufFamilies),
                                  [&](const GgufFamily& one) { return one.model_type == family_; });
  if (found == std::end(kGgufFamilies))
    throw Error(where_ + ": model_type: expected one of " + gguf_families() + " to write a GGUF file, got " +
                family_);
  to.architecture = found->architecture;
  to.heads = c.heads;
  to.kv_heads = c.kv_heads;
  check();
  integer("block_count", c.layers);
  integer("context_length", c.positions);
  integer("embedding_length", c.d_model);
  integer("feed_forward_length", c.d_ff);
  integer("attention.head_count", c.heads);
  integer("attention.head_count_kv", c.kv_heads);
  number("rope.freq_base", c.rotary.theta);
  number("attention.layer_norm_rms_epsilon", c.norm_eps);
  integer("attention.key_length", c.head_dim);
  integer("attention.value_length", c.head_dim);
  integer("vocab_size", c.vocab_size);
  integer("rope.dimension_count", c.rotary.dim);
  put_scaling();
  put_windows();
  if (!c.experts.layers.empty()) put_experts();
  if (is("granite")) {
    number("attention.scale", *c.attention_scale);
    number("embedding_scale", c.embedding_scale);
    number("residual_scale", c.residual_scale);
    number("logit_scale", 1 / c.logit_scale);
  }
  if (is("gemma2")) number("attn_logit_softcapping", c.score_cap);
  if (is_gemma()) number("final_logit_softcapping", c.logit_cap);
  return std::move(to);
}

}  // namespace

GgufModel llama_gguf(const LlamaConfig& config, const std::string& family, const std::string& where) {
  return LlamaGguf(config, family, where).make();
}

std::string gguf_families() {
  std::string names;
  for (const GgufFamily& family : kGgufFamilies) names.append(family.model_type).append(", ");
  return names + "gpt2";
}

}  // namespace heed
