#include "io/gguf_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "core/json.h"
#include "files/gguf_file.h"
#include "heed/error.h"
#include "io/gguf_architecture.h"

namespace heed::io {
namespace {

// A 32-bit number as the shortest decimal that stands for it: 1e-05, not 9.999999747378752e-06.
double shortest(double value) {
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) != value) return value;
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, narrow);
  double decimal = value;
  std::from_chars(text, written.ptr, decimal);
  return decimal;
}

// Metadata of the architecture, each of which is used once, and the config they become.
class ConfigOfGguf {
 public:
  explicit ConfigOfGguf(const GgufFile& file) : file(file), arch_(gguf_architecture_name(file)) {}

  std::string key(const char* name) const { return arch_ + "." + name; }
  bool has(const char* name) const { return file.has(key(name)); }
  void use(std::initializer_list<const char*> names) {
    for (const char* name : names) used_.insert(key(name));
  }
  // An array has a value for each layer, which must be the same.
  std::optional<std::int64_t> integer(const char* name) {
    use({name});
    const std::vector<std::int64_t> all = file.integers(key(name));
    if (all.empty()) return std::nullopt;
    for (const std::int64_t value : all) {
      if (value != all.front()) file.fail(key(name), "the same number for all layers", "several");
    }
    return all.front();
  }
  std::int64_t required(const char* name) {
    const auto value = integer(name);
    if (!value) file.fail(key(name), "an integer", "none");
    return *value;
  }
  std::optional<double> number(const char* name) {
    use({name});
    const auto value = file.number(key(name));
    if (!value) return std::nullopt;
    return shortest(*value);
  }
  std::optional<bool> boolean(const char* name) {
    use({name});
    return file.boolean(key(name));
  }
  std::optional<std::string> string(const char* name) {
    use({name});
    return file.string(key(name));
  }
  [[noreturn]] void fail(const char* name, const std::string& expected, const std::string& got) const {
    file.fail(key(name), expected, got);
  }
  // Metadata that other architectures have: any other value is refused.
  void require(const char* name, double value, double or_else) {
    const auto given = number(name);
    if (given && *given != value && *given != or_else)
      fail(name, fmt::format("{}, as heed does not follow it here", value), fmt::format("{}", *given));
  }
  void require(const char* name, double value) { require(name, value, value); }
  bool holds(const std::string& tensor) const { return file.find(tensor) != nullptr; }
  std::optional<std::int64_t> token(const char* role) const {
    const std::string name = fmt::format("tokenizer.ggml.{}_token_id", role);
    const auto id = file.integer(name);
    if (id && *id >= 0 && *id < vocabulary()) return id;
    return std::nullopt;  // 2^32 - 1 stands for none
  }
  std::int64_t vocabulary() const {
    constexpr const char* kTokens = "tokenizer.ggml.tokens";
    if (file.tensors().empty() && file.has(kTokens))  // a vocabulary alone
      return std::ssize(file.strings(kTokens));
    const GgufTensor* table = file.find("token_embd.weight");
    if (table == nullptr || table->shape.size() != 2)
      throw Error(file.path().string() + ": token_embd.weight: expected a table of tokens, got none");
    return table->shape[0];
  }
  // What nothing above understood becomes a key of the config, which reports it.
  void report_others() {
    for (const std::string& name : file.keys()) {
      if (name.starts_with(arch_ + ".") && !used_.contains(name)) json[name] = "not understood";
    }
  }

  const GgufFile& file;
  Json json = Json::object();

 private:
  std::string arch_;
  std::set<std::string> used_;
};

void name_class(ConfigOfGguf& c, const char* type, const std::string& architecture) {
  c.json["model_type"] = type;
  c.json["architectures"] = Json::array({architecture});
  c.json["vocab_size"] = c.vocabulary();
  const auto id = [&](const char* role, const char* key) {
    const auto value = c.token(role);
    c.json[key] = value ? Json(*value) : Json();
  };
  id("bos", "bos_token_id");
  id("eos", "eos_token_id");
  id("padding", "pad_token_id");
  c.use({"vocab_size", "tensor_data_layout", "pooling_type", "rope.scaling.finetuned"});
}

std::vector<double> factors_in(const ConfigOfGguf& c, const char* name, std::int64_t dim) {
  const GgufTensor* tensor = c.file.find(name);
  if (tensor == nullptr) return {};
  const bool fits =
      tensor->shape.size() == 1 && tensor->shape[0] == dim / 2 && tensor->layout.type == BlockType::f32;
  if (!fits)
    throw Error(
        fmt::format("{}: {}: expected {} numbers of F32, one for each pair of rotary dims, got others",
                    c.file.path().string(), name, dim / 2));
  std::vector<double> factors;
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    float factor;
    std::memcpy(&factor, tensor->data + i * std::int64_t{4}, sizeof factor);
    if (!(factor > 0 && std::isfinite(factor)))
      throw Error(
          fmt::format("{}: {}: expected numbers above 0, got {}", c.file.path().string(), name, factor));
    factors.push_back(shortest(factor));
  }
  return factors;
}

// The scaling whose factors a file has as a tensor: LLaMA 3's with its usual lengths where they give these
// factors, else factors by themselves.
Json scaling_by_factors(const std::vector<double>& factors, double theta, std::int64_t dim) {
  const double factor = factors.back();
  bool usual = factor > 1;
  for (std::size_t i = 0; i < factors.size() && usual; ++i) {
    const double expected = gguf_llama3_factor(theta, static_cast<std::int64_t>(i), dim, factor, 1, 4, 8192);
    usual = std::abs(factors[i] - expected) <= 1e-5 * expected;
  }
  if (usual)
    return {{"rope_type", "llama3"},
            {"factor", factor},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 8192}};
  return {{"rope_type", "longrope"},
          {"factor", 1.0},
          {"attention_factor", 1.0},
          {"short_factor", factors},
          {"long_factor", factors}};
}

Json rope_scaling(ConfigOfGguf& c, double theta, std::int64_t dim) {
  const std::string type = c.string("rope.scaling.type").value_or("none");
  const auto factor = c.number("rope.scaling.factor"), old_factor = c.number("rope.scale_linear");
  const auto original = c.integer("rope.scaling.original_context_length");
  const auto attention = c.number("rope.scaling.attn_factor");
  const std::vector<double> both = factors_in(c, "rope_freqs.weight", dim),
                            few = factors_in(c, "rope_factors_short.weight", dim),
                            many = factors_in(c, "rope_factors_long.weight", dim);
  Json scaling;
  if (!few.empty() && !many.empty()) {
    scaling = {{"rope_type", "longrope"}, {"short_factor", few}, {"long_factor", many}};
    if (attention) scaling["attention_factor"] = *attention;
  } else if (type == "linear" || (type == "none" && old_factor.value_or(1) != 1)) {
    scaling = {{"rope_type", "linear"}, {"factor", factor ? *factor : old_factor.value_or(1)}};
  } else if (type == "yarn") {
    if (!factor) c.fail("rope.scaling.factor", "a number", "none");
    scaling = {{"rope_type", "yarn"}, {"factor", *factor}};
    c.require("rope.scaling.yarn_ext_factor", 1, -1);
    c.require("rope.scaling.yarn_log_multiplier", 0);
    const auto copy = [&](const char* name, const char* to) {
      if (const auto value = c.number(name)) scaling[to] = *value;
    };
    copy("rope.scaling.yarn_attn_factor", "attention_factor");
    copy("rope.scaling.yarn_beta_fast", "beta_fast");
    copy("rope.scaling.yarn_beta_slow", "beta_slow");
  } else if (!both.empty()) {
    return scaling_by_factors(both, theta, dim);
  } else if (type != "none") {
    c.fail("rope.scaling.type", "none, linear or yarn, or longrope with its factors", type);
  }
  if (!both.empty())
    throw Error(c.file.path().string() + ": rope_freqs.weight: expected no other scaling beside it, got " +
                type);
  if (original && !scaling.is_null() && scaling["rope_type"] != "linear")
    scaling["original_max_position_embeddings"] = *original;
  return scaling;
}

// `partial`: the key of the part of a head that is rotated; null: all of it.
void read_rope(ConfigOfGguf& c, std::int64_t head_dim, const char* partial,
               const char* theta_key = "rope_theta") {
  const double theta = c.number("rope.freq_base").value_or(10000);
  const std::int64_t dim = c.integer("rope.dimension_count").value_or(head_dim);
  if (dim < 2 || dim > head_dim || (dim != head_dim && partial == nullptr))
    c.fail("rope.dimension_count",
           partial == nullptr ? fmt::format("{}, all of a head", head_dim)
                              : fmt::format("from 2 to {}", head_dim),
           std::to_string(dim));
  c.json[theta_key] = theta;
  if (partial != nullptr) c.json[partial] = static_cast<double>(dim) / static_cast<double>(head_dim);
  const Json scaling = rope_scaling(c, theta, dim);
  if (!scaling.is_null()) c.json["rope_scaling"] = scaling;
}

// The heads, and the size of one.
std::int64_t read_heads(ConfigOfGguf& c, std::int64_t d_model) {
  const std::int64_t heads = c.required("attention.head_count");
  if (heads < 1) c.fail("attention.head_count", "at least 1", std::to_string(heads));
  c.json["num_attention_heads"] = heads;
  c.json["num_key_value_heads"] = c.integer("attention.head_count_kv").value_or(heads);
  const std::int64_t size = c.integer("attention.key_length").value_or(d_model / heads);
  if (c.integer("attention.value_length").value_or(size) != size)
    c.fail("attention.value_length", std::to_string(size) + ", as attention.key_length", "another");
  if (size < 1) c.fail("attention.key_length", "at least 1", std::to_string(size));
  return size;
}

// What LLaMA and the families after it have.
std::int64_t read_decoder(ConfigOfGguf& c, const char* type, const char* architecture,
                          const char* partial = nullptr) {
  name_class(c, type, architecture);
  const std::int64_t d_model = c.required("embedding_length");
  c.json["hidden_size"] = d_model;
  c.json["intermediate_size"] = c.required("feed_forward_length");
  c.json["num_hidden_layers"] = c.required("block_count");
  const std::int64_t size = read_heads(c, d_model);
  c.json["head_dim"] = size;
  c.json["rms_norm_eps"] = c.number("attention.layer_norm_rms_epsilon").value_or(1e-5);
  c.json["max_position_embeddings"] = c.required("context_length");
  c.json["tie_word_embeddings"] = !c.holds("output.weight");
  read_rope(c, size, partial);
  if (c.boolean("attention.causal") == false) c.fail("attention.causal", "true in a decoder", "false");
  return size;
}

void refuse_experts(ConfigOfGguf& c) {
  c.require("expert_count", 0);
  c.require("expert_used_count", 0);
}

void refuse_multipliers(ConfigOfGguf& c, std::int64_t head_dim) {
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  if (const auto given = c.number("attention.scale");
      given && *given != 0 && std::abs(*given - scale) > 1e-6 * scale)
    c.fail("attention.scale", fmt::format("{}, as heed does not follow it here", scale),
           fmt::format("{}", *given));
  for (const char* name : {"logit_scale", "residual_scale", "embedding_scale"}) c.require(name, 1, 0);
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv"})
    c.require(name, 0);
}

void read_bias_flags(ConfigOfGguf& c) {
  c.json["attention_bias"] = c.holds("blk.0.attn_q.bias");
  c.json["mlp_bias"] = c.holds("blk.0.ffn_up.bias");
}

void read_llama(ConfigOfGguf& c) {
  const bool experts = c.integer("expert_count").value_or(0) > 0;
  const std::int64_t size = experts ? read_decoder(c, "mixtral", "MixtralForCausalLM")
                                    : read_decoder(c, "llama", "LlamaForCausalLM");
  refuse_multipliers(c, size);
  if (!experts) {
    read_bias_flags(c);
    return refuse_experts(c);
  }
  c.json["num_local_experts"] = c.required("expert_count");
  c.json["num_experts_per_tok"] = c.required("expert_used_count");
  c.use({"expert_feed_forward_length"});
}

void read_smollm3(ConfigOfGguf& c) {
  refuse_multipliers(c, read_decoder(c, "smollm3", "SmolLM3ForCausalLM"));
  read_bias_flags(c);
  refuse_experts(c);
  c.json["no_rope_layer_interval"] = 4;  // llama.cpp knows no other
}

void read_granite(ConfigOfGguf& c) {
  read_decoder(c, "granite", "GraniteForCausalLM");
  read_bias_flags(c);
  refuse_experts(c);
  // 0 or none: as if there were no multiplier, but for the attention's, which is then that of other models.
  const auto copy = [&](const char* name, const char* to, double default_value) {
    const double value = c.number(name).value_or(0);
    c.json[to] = value == 0 ? default_value : value;
  };
  copy("attention.scale", "attention_multiplier", 1 / std::sqrt(c.json["head_dim"].get<double>()));
  copy("embedding_scale", "embedding_multiplier", 1);
  copy("residual_scale", "residual_multiplier", 1);
  copy("logit_scale", "logits_scaling", 1);
}

void read_qwen2(ConfigOfGguf& c) {
  refuse_multipliers(c, read_decoder(c, "qwen2", "Qwen2ForCausalLM"));
  refuse_experts(c);
}

void read_qwen3(ConfigOfGguf& c) {
  refuse_multipliers(c, read_decoder(c, "qwen3", "Qwen3ForCausalLM"));
  c.json["attention_bias"] = c.holds("blk.0.attn_q.bias");
  refuse_experts(c);
}

void read_qwen3moe(ConfigOfGguf& c) {
  refuse_multipliers(c, read_decoder(c, "qwen3_moe", "Qwen3MoeForCausalLM"));
  c.json["attention_bias"] = c.holds("blk.0.attn_q.bias");
  c.json["num_experts"] = c.required("expert_count");
  c.json["num_experts_per_tok"] = c.required("expert_used_count");
  c.json["moe_intermediate_size"] = c.required("expert_feed_forward_length");
  c.json["norm_topk_prob"] = c.boolean("expert_weights_norm").value_or(true);
  c.require("expert_weights_scale", 1, 0);
  c.require("expert_gating_func", 1);
  c.require("expert_shared_count", 0);
}

void read_olmo2(ConfigOfGguf& c) {
  refuse_multipliers(c, read_decoder(c, "olmo2", "Olmo2ForCausalLM"));
  c.json["attention_bias"] = c.holds("blk.0.attn_q.bias");
  refuse_experts(c);
  c.require("attention.sliding_window", 0);  // OLMo 3
}

void read_phi3(ConfigOfGguf& c) {
  read_decoder(c, "phi3", "Phi3ForCausalLM", "partial_rotary_factor");
  refuse_experts(c);
  const std::int64_t window = c.integer("attention.sliding_window").value_or(0);
  c.json["sliding_window"] = window > 0 ? Json(window) : Json();
  if (const auto original = c.integer("rope.scaling.original_context_length"))
    c.json["original_max_position_embeddings"] = *original;
}

// The file does not say what queries are scaled by; llama.cpp goes by the number of layers, which the models
// of 27 billion parameters alone have.
void read_gemma(ConfigOfGguf& c, std::int64_t size, std::int64_t layers_of_27b) {
  refuse_experts(c);
  const bool largest = c.json["num_hidden_layers"] == layers_of_27b;
  c.json["query_pre_attn_scalar"] =
      largest ? c.json["hidden_size"].get<std::int64_t>() / c.json["num_attention_heads"].get<std::int64_t>()
              : size;
  const double cap = c.number("final_logit_softcapping").value_or(0);
  c.json["final_logit_softcapping"] = cap > 0 ? Json(cap) : Json();
  c.json["hidden_activation"] = "gelu_pytorch_tanh";
}

void read_gemma2(ConfigOfGguf& c) {
  read_gemma(c, read_decoder(c, "gemma2", "Gemma2ForCausalLM"), 46);
  const double cap = c.number("attn_logit_softcapping").value_or(50);
  c.json["attn_logit_softcapping"] = cap > 0 ? Json(cap) : Json();
  if (c.json["final_logit_softcapping"].is_null() && !c.has("final_logit_softcapping"))
    c.json["final_logit_softcapping"] = 30;
  c.json["sliding_window"] = c.integer("attention.sliding_window").value_or(4096);
  c.require("attention.sliding_window_pattern", 2);
}

void read_gemma3(ConfigOfGguf& c) {
  read_gemma(c, read_decoder(c, "gemma3_text", "Gemma3ForCausalLM"), 62);
  const std::int64_t window = c.integer("attention.sliding_window").value_or(0);
  c.json["sliding_window"] = window > 0 ? window : 4096;
  c.json["sliding_window_pattern"] =
      window > 0 ? c.integer("attention.sliding_window_pattern").value_or(6) : 1;
  c.json["rope_local_base_freq"] = c.number("rope.freq_base_swa").value_or(10000);
}

// What the decoders before LLaMA have, under the names of their configs.
struct OlderNames {
  const char *width, *inner, *layers, *heads, *positions, *epsilon;
};

std::int64_t read_older(ConfigOfGguf& c, const char* type, const char* architecture,
                        const OlderNames& names) {
  name_class(c, type, architecture);
  const std::int64_t width = c.required("embedding_length"), heads = c.required("attention.head_count");
  if (heads < 1) c.fail("attention.head_count", "at least 1", std::to_string(heads));
  if (c.integer("attention.head_count_kv").value_or(heads) != heads)
    c.fail("attention.head_count_kv", std::to_string(heads) + ", as attention.head_count", "another");
  c.json[names.width] = width;
  c.json[names.layers] = c.required("block_count");
  c.json[names.heads] = heads;
  c.json[names.positions] = c.required("context_length");
  c.json[names.epsilon] = c.number("attention.layer_norm_epsilon").value_or(1e-5);
  const std::int64_t inner = c.required("feed_forward_length");
  if (names.inner != nullptr) c.json[names.inner] = inner;
  if (names.inner == nullptr && inner != 4 * width)
    c.fail("feed_forward_length", std::to_string(4 * width), std::to_string(inner));
  c.json["tie_word_embeddings"] = !c.holds("output.weight");
  return width / heads;
}

void read_gpt2(ConfigOfGguf& c) {
  read_older(c, "gpt2", "GPT2LMHeadModel",
             {"n_embd", "n_inner", "n_layer", "n_head", "n_positions", "layer_norm_epsilon"});
}

void read_gptneox(ConfigOfGguf& c) {
  const std::int64_t size = read_older(c, "gpt_neox", "GPTNeoXForCausalLM",
                                       {"hidden_size", "intermediate_size", "num_hidden_layers",
                                        "num_attention_heads", "max_position_embeddings", "layer_norm_eps"});
  c.json["use_parallel_residual"] = c.boolean("use_parallel_residual").value_or(true);
  c.json["attention_bias"] = c.holds("blk.0.attn_qkv.bias");
  read_rope(c, size, "rotary_pct", "rotary_emb_base");
}

void read_bloom(ConfigOfGguf& c) {
  read_older(c, "bloom", "BloomForCausalLM",
             {"hidden_size", nullptr, "n_layer", "n_head", "seq_length", "layer_norm_epsilon"});
}

void read_mpt(ConfigOfGguf& c) {
  read_older(c, "mpt", "MptForCausalLM",
             {"d_model", nullptr, "n_layers", "n_heads", "max_seq_len", "layer_norm_epsilon"});
  const double bias = c.number("attention.max_alibi_bias").value_or(8);
  if (bias != 8) c.fail("attention.max_alibi_bias", "8, the only one that heed has", fmt::format("{}", bias));
  Json attention = {{"alibi", true}, {"alibi_bias_max", 8}};
  if (const auto clip = c.number("attention.clamp_kqv"); clip && *clip > 0) attention["clip_qkv"] = *clip;
  c.json["attn_config"] = attention;
}

void read_t5(ConfigOfGguf& c, const char* architecture) {
  name_class(c, "t5", architecture);
  c.json["d_model"] = c.required("embedding_length");
  c.json["d_ff"] = c.required("feed_forward_length");
  c.json["num_layers"] = c.required("block_count");
  c.json["num_decoder_layers"] = c.integer("decoder_block_count").value_or(c.required("block_count"));
  c.json["num_heads"] = c.required("attention.head_count");
  c.json["d_kv"] = c.required("attention.key_length");
  c.json["layer_norm_epsilon"] = c.number("attention.layer_norm_rms_epsilon").value_or(1e-6);
  c.json["relative_attention_num_buckets"] = c.integer("attention.relative_buckets_count").value_or(32);
  c.json["n_positions"] = c.required("context_length");
  c.json["feed_forward_proj"] = c.holds("enc.blk.0.ffn_gate.weight") ? "gated-gelu" : "relu";
  c.json["tie_word_embeddings"] = !c.holds("output.weight");
  if (c.json["pad_token_id"].is_null()) c.json["pad_token_id"] = 0;
  c.json["decoder_start_token_id"] =
      c.integer("decoder_start_token_id").value_or(c.json["pad_token_id"].get<std::int64_t>());
  c.use({"attention.layer_norm_epsilon", "attention.value_length", "attention.head_count_kv"});
}

// The names of the classes that a file holds: with its labels, or bare.
std::string bert_class(ConfigOfGguf& c, const char* prefix) {
  const bool labelled = c.holds("cls.output.weight");
  c.use({"classifier.output_labels"});
  if (!labelled) return std::string(prefix) + "Model";
  const GgufTensor* output = c.file.find("cls.output.weight");
  const std::vector<std::string_view> names = c.file.strings(c.key("classifier.output_labels"));
  if (!names.empty() && std::ssize(names) != output->shape.front())
    c.fail("classifier.output_labels", fmt::format("{} labels", output->shape.front()),
           std::to_string(names.size()));
  Json labels = Json::object();
  for (std::int64_t i = 0; i < output->shape.front(); ++i)
    labels[std::to_string(i)] =
        names.empty() ? "LABEL_" + std::to_string(i) : std::string(names[static_cast<std::size_t>(i)]);
  c.json["id2label"] = labels;
  return std::string(prefix) + "ForSequenceClassification";
}

void read_bert(ConfigOfGguf& c) {
  const std::string kind = gguf_bert_kind(c.file);
  const bool distil = kind == "distilbert";
  const std::string architecture = bert_class(c, distil                  ? "DistilBert"
                                                 : kind == "roberta"     ? "Roberta"
                                                 : kind == "xlm-roberta" ? "XLMRoberta"
                                                                         : "Bert");
  name_class(c, kind.c_str(), architecture);
  c.json[distil ? "dim" : "hidden_size"] = c.required("embedding_length");
  c.json[distil ? "hidden_dim" : "intermediate_size"] = c.required("feed_forward_length");
  c.json[distil ? "n_layers" : "num_hidden_layers"] = c.required("block_count");
  c.json[distil ? "n_heads" : "num_attention_heads"] = c.required("attention.head_count");
  const double epsilon = c.number("attention.layer_norm_epsilon").value_or(1e-12);
  if (!distil) c.json["layer_norm_eps"] = epsilon;
  const std::int64_t offset = kind == "roberta" || kind == "xlm-roberta"
                                  ? c.file.integer("tokenizer.ggml.padding_token_id").value_or(0) + 1
                                  : 0;
  c.json["max_position_embeddings"] = c.required("context_length") + offset;
  if (const GgufTensor* types = c.file.find("token_types.weight"))
    c.json["type_vocab_size"] = types->shape.front();
  if (c.boolean("attention.causal").value_or(false))
    c.fail("attention.causal", "false in an encoder", "true");
  c.use({"attention.head_count_kv", "token_type_count"});
}

void read_modern_bert(ConfigOfGguf& c) {
  name_class(c, "modernbert", "ModernBertModel");
  c.json["hidden_size"] = c.required("embedding_length");
  c.json["intermediate_size"] = c.required("feed_forward_length");
  c.json["num_hidden_layers"] = c.required("block_count");
  c.json["num_attention_heads"] = c.required("attention.head_count");
  const auto rms =
      c.number("attention.layer_norm_rms_epsilon");  // whose key the converter takes for norm_eps
  c.json["norm_eps"] = c.number("attention.layer_norm_epsilon").value_or(rms.value_or(1e-5));
  c.json["max_position_embeddings"] = c.required("context_length");
  c.json["local_attention"] = c.required("attention.sliding_window");
  c.json["global_attn_every_n_layers"] = c.integer("attention.sliding_window_pattern").value_or(3);
  c.json["global_rope_theta"] = c.number("rope.freq_base").value_or(160000);
  c.json["local_rope_theta"] = c.number("rope.freq_base_swa").value_or(10000);
  c.json["hidden_activation"] = c.string("hidden_activation").value_or("gelu");
  c.json["norm_bias"] = c.holds("output_norm.bias");
  c.json["attention_bias"] = c.holds("blk.0.attn_qkv.bias");
  c.json["mlp_bias"] = c.holds("blk.0.ffn_up.bias");
  if (const std::string type = c.string("rope.scaling.type").value_or("none"); type != "none")
    c.fail("rope.scaling.type", "none", type);
  if (c.boolean("attention.causal").value_or(false))
    c.fail("attention.causal", "false in an encoder", "true");
  c.use({"attention.head_count_kv", "token_type_count", "classifier.pooling_type"});
}

using Reader = void (*)(ConfigOfGguf&);

Reader reader_of(const std::string& architecture) {
  static const std::map<std::string, Reader> readers = {
      {"llama", read_llama},
      {"smollm3", read_smollm3},
      {"granite", read_granite},
      {"qwen2", read_qwen2},
      {"qwen3", read_qwen3},
      {"qwen3moe", read_qwen3moe},
      {"olmo2", read_olmo2},
      {"phi3", read_phi3},
      {"gemma2", read_gemma2},
      {"gemma3", read_gemma3},
      {"gpt2", read_gpt2},
      {"gptneox", read_gptneox},
      {"bloom", read_bloom},
      {"mpt", read_mpt},
      {"t5", [](ConfigOfGguf& c) { read_t5(c, "T5ForConditionalGeneration"); }},
      {"t5encoder", [](ConfigOfGguf& c) { read_t5(c, "T5EncoderModel"); }},
      {"bert", read_bert},
      {"modern-bert", read_modern_bert},
  };
  const auto found = readers.find(architecture);
  HEED_ASSERT(found != readers.end(), "names of tensors for an architecture without a config");
  return found->second;
}

// Ends of a text: that of all texts, and those of a turn or a message in a chat.
Json generation_of(const ConfigOfGguf& c) {
  Json generation = Json::object(), ends = Json::array();
  for (const char* role : {"eos", "eot", "eom"}) {
    const auto id = c.token(role);
    if (id && std::find(ends.begin(), ends.end(), Json(*id)) == ends.end()) ends.push_back(*id);
  }
  if (const auto id = c.token("bos")) generation["bos_token_id"] = *id;
  if (ends.size() == 1) generation["eos_token_id"] = ends[0];
  if (ends.size() > 1) generation["eos_token_id"] = ends;
  if (const auto id = c.token("padding")) generation["pad_token_id"] = *id;
  if (c.json.contains("decoder_start_token_id"))
    generation["decoder_start_token_id"] = c.json["decoder_start_token_id"];
  return generation;
}

// How the vectors of a text become one, by llama.cpp's numbers: 1 mean, 2 the first token's, 3 the last's.
void add_pooling(const ConfigOfGguf& c, std::map<std::string, std::string>& documents) {
  const std::string key = c.key("pooling_type");
  const std::int64_t type = c.file.integer(key).value_or(0);
  if (type <= 0 || type == 4) return;  // none, or the scores of a head
  if (type > 3) c.file.fail(key, "a pooling from 0 to 4", std::to_string(type));
  const auto module = [](int index, const char* path, const char* name) {
    return Json{{"idx", index},
                {"name", std::to_string(index)},
                {"path", path},
                {"type", std::string("sentence_transformers.models.") + name}};
  };
  documents["modules.json"] =
      json_text(Json::array({module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")}), 2) + "\n";
  documents["1_Pooling/config.json"] =
      json_text(Json{{"word_embedding_dimension", c.file.integer(c.key("embedding_length")).value_or(0)},
                     {"pooling_mode_mean_tokens", type == 1},
                     {"pooling_mode_cls_token", type == 2},
                     {"pooling_mode_lasttoken", type == 3}},
                2) +
      "\n";
}

std::map<std::string, std::string> documents_of(const GgufFile& file) {
  gguf_architecture(file);  // which is one that heed reads
  ConfigOfGguf config(file);
  reader_of(gguf_architecture_name(file))(config);
  config.report_others();
  std::map<std::string, std::string> documents = {{"config.json", json_text(config.json, 2) + "\n"}};
  const std::string architecture = config.json["architectures"][0].get<std::string>();
  if (!architecture.ends_with("Model") && !architecture.ends_with("Classification"))
    documents["generation_config.json"] = json_text(generation_of(config), 2) + "\n";
  add_pooling(config, documents);
  return documents;
}

}  // namespace

double gguf_llama3_factor(double theta, std::int64_t i, std::int64_t dim, double factor, double low,
                          double high, double original) {
  constexpr double kPi = 3.14159265358979323846;
  const double frequency = 1 / std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(dim));
  const double wavelength = 2 * kPi / frequency;
  if (wavelength < original / high) return 1;
  if (wavelength > original / low) return factor;
  const double smooth = (original / wavelength - low) / (high - low);
  return 1 / ((1 - smooth) / factor + smooth);
}

ModelFiles::Maker gguf_config_maker() {
  return {{"config.json", "generation_config.json", "modules.json", "1_Pooling/config.json"}, documents_of};
}

}  // namespace heed::io
