#include "io/gguf_architecture.h"

#include <charconv>
#include <map>

#include "core/strings.h"
#include "heed/error.h"

namespace heed::io {
namespace {

using enum GgufChange;

constexpr GgufName kRopeFactors[] = {
    {"rope_freqs", "", unread}, {"rope_factors_long", "", unread}, {"rope_factors_short", "", unread}};

// LLaMA and the families after it. `queries` and `keys`: how their rows were changed.
GgufArchitecture llama_names(GgufChange queries, GgufChange keys, std::string_view experts = "mlp.experts.#.",
                             std::vector<GgufName> more = {}) {
  const bool mixtral = experts.starts_with("block_sparse_moe");
  GgufArchitecture a;
  a.names = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
  a.names.insert(a.names.end(), std::begin(kRopeFactors), std::end(kRopeFactors));
  std::vector<GgufName> names = {
      {"attn_norm", "input_layernorm"},
      {"attn_q", "self_attn.q_proj", queries},
      {"attn_k", "self_attn.k_proj", keys},
      {"attn_v", "self_attn.v_proj"},
      {"attn_output", "self_attn.o_proj"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},
      {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"},
      {"attn_rot_embd", "", unread},
      {"ffn_gate_inp", mixtral ? "block_sparse_moe.gate" : "mlp.gate"},
      {"ffn_gate_exps", mixtral ? "block_sparse_moe.experts.#.w1" : "mlp.experts.#.gate_proj",
       GgufChange::experts},
      {"ffn_up_exps", mixtral ? "block_sparse_moe.experts.#.w3" : "mlp.experts.#.up_proj",
       GgufChange::experts},
      {"ffn_down_exps", mixtral ? "block_sparse_moe.experts.#.w2" : "mlp.experts.#.down_proj",
       GgufChange::experts},
  };
  // A name that is given anew replaces the one above.
  for (const GgufName& name : more) {
    std::erase_if(names, [&](const GgufName& other) { return other.gguf == name.gguf; });
    names.push_back(name);
  }
  a.layers = {{"blk.", "model.layers.", std::move(names)}};
  return a;
}

GgufArchitecture gemma_names(bool norms_heads) {
  std::vector<GgufName> more = {{"attn_norm", "input_layernorm", plus_one},
                                {"post_attention_norm", "post_attention_layernorm", plus_one},
                                {"ffn_norm", "pre_feedforward_layernorm", plus_one},
                                {"post_ffw_norm", "post_feedforward_layernorm", plus_one}};
  if (norms_heads) {
    more.push_back({"attn_q_norm", "self_attn.q_norm", plus_one});
    more.push_back({"attn_k_norm", "self_attn.k_norm", plus_one});
  }
  GgufArchitecture a = llama_names(none, none, "mlp.experts.#.", std::move(more));
  a.names[1].change = plus_one;  // output_norm
  return a;
}

GgufArchitecture t5_names() {
  const auto stack = [](std::string_view gguf, std::string_view layers, bool decoder) {
    std::vector<GgufName> names = {
        {"attn_norm", "layer.0.layer_norm"},
        {"attn_q", "layer.0.SelfAttention.q"},
        {"attn_k", "layer.0.SelfAttention.k"},
        {"attn_v", "layer.0.SelfAttention.v"},
        {"attn_o", "layer.0.SelfAttention.o"},
        {"attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"},
    };
    if (decoder) {
      for (const GgufName& name : std::initializer_list<GgufName>{
               {"cross_attn_norm", "layer.1.layer_norm"},
               {"cross_attn_q", "layer.1.EncDecAttention.q"},
               {"cross_attn_k", "layer.1.EncDecAttention.k"},
               {"cross_attn_v", "layer.1.EncDecAttention.v"},
               {"cross_attn_o", "layer.1.EncDecAttention.o"},
               {"cross_attn_rel_b", "layer.1.EncDecAttention.relative_attention_bias"},
               {"ffn_norm", "layer.2.layer_norm"},
               {"ffn_gate", "layer.2.DenseReluDense.wi_0"},
               {"ffn_up", "layer.2.DenseReluDense.wi_1"},
               {"ffn_down", "layer.2.DenseReluDense.wo"}})
        names.push_back(name);
    } else {
      for (const GgufName& name : std::initializer_list<GgufName>{{"ffn_norm", "layer.1.layer_norm"},
                                                                  {"ffn_gate", "layer.1.DenseReluDense.wi_0"},
                                                                  {"ffn_up", "layer.1.DenseReluDense.wi_1"},
                                                                  {"ffn_down", "layer.1.DenseReluDense.wo"}})
        names.push_back(name);
    }
    return GgufLayers{gguf, layers, std::move(names)};
  };
  GgufArchitecture a;
  a.names = {{"token_embd", "shared"},
             {"enc.output_norm", "encoder.final_layer_norm"},
             {"dec.output_norm", "decoder.final_layer_norm"},
             {"output", "lm_head"}};
  a.layers = {stack("enc.blk.", "encoder.block.", false), stack("dec.blk.", "decoder.block.", true)};
  return a;
}

// The original T5, whose feed-forward has no gate and one name less.
GgufArchitecture ungated_t5_names() {
  GgufArchitecture a = t5_names();
  a.layers[0].names.push_back({"ffn_up", "layer.1.DenseReluDense.wi"});
  a.layers[1].names.push_back({"ffn_up", "layer.2.DenseReluDense.wi"});
  for (GgufLayers& layers : a.layers)
    std::erase_if(layers.names, [](const GgufName& name) { return name.hugging_face.ends_with(".wi_1"); });
  return a;
}

GgufArchitecture bert_names(GgufChange positions, bool heads) {
  GgufArchitecture a;
  a.names = {{"token_embd", "embeddings.word_embeddings"},
             {"position_embd", "embeddings.position_embeddings", positions},
             {"token_types", "embeddings.token_type_embeddings"},
             {"token_embd_norm", "embeddings.LayerNorm"}};
  if (heads) {  // RoBERTa's; BERT's reads the pooler, which the converter leaves out
    a.names.push_back({"cls", "classifier.dense"});
    a.names.push_back({"cls.output", "classifier.out_proj"});
  }
  a.layers = {{"blk.",
               "encoder.layer.",
               {{"attn_q", "attention.self.query"},
                {"attn_k", "attention.self.key"},
                {"attn_v", "attention.self.value"},
                {"attn_output", "attention.output.dense"},
                {"attn_output_norm", "attention.output.LayerNorm"},
                {"ffn_up", "intermediate.dense"},
                {"ffn_down", "output.dense"},
                {"layer_output_norm", "output.LayerNorm"}}}};
  return a;
}

std::map<std::string, GgufArchitecture, std::less<>> all_names() {
  std::map<std::string, GgufArchitecture, std::less<>> all;
  all["llama"] = llama_names(query_pairs, key_pairs, "block_sparse_moe.experts.#.");
  all["smollm3"] = all["granite"] = llama_names(query_pairs, key_pairs);
  all["qwen2"] = llama_names(none, none);
  all["qwen3"] = all["qwen3moe"] =
      llama_names(none, none, "mlp.experts.#.",
                  {{"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"}});
  all["olmo2"] = llama_names(none, none, "mlp.experts.#.",
                             {{"attn_q_norm", "self_attn.q_norm"},
                              {"attn_k_norm", "self_attn.k_norm"},
                              {"post_attention_norm", "post_attention_layernorm"},
                              {"post_ffw_norm", "post_feedforward_layernorm"}});
  all["phi3"] = llama_names(none, none, "mlp.experts.#.",
                            {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_up", "mlp.gate_up_proj"}});
  all["gemma2"] = gemma_names(false);
  all["gemma3"] = gemma_names(true);
  all["gpt2"] = {.names = {{"token_embd", "transformer.wte"},
                           {"position_embd", "transformer.wpe"},
                           {"output_norm", "transformer.ln_f"},
                           {"output", "lm_head"}},
                 .layers = {{"blk.",
                             "transformer.h.",
                             {{"attn_norm", "ln_1"},
                              {"attn_qkv", "attn.c_attn", transposed},
                              {"attn_output", "attn.c_proj", transposed},
                              {"ffn_norm", "ln_2"},
                              {"ffn_up", "mlp.c_fc", transposed},
                              {"ffn_down", "mlp.c_proj", transposed}}}}};
  all["gptneox"] = {.names = {{"token_embd", "gpt_neox.embed_in"},
                              {"output_norm", "gpt_neox.final_layer_norm"},
                              {"output", "embed_out"}},
                    .layers = {{"blk.",
                                "gpt_neox.layers.",
                                {{"attn_norm", "input_layernorm"},
                                 {"attn_qkv", "attention.query_key_value", fused_by_kind},
                                 {"attn_output", "attention.dense"},
                                 {"ffn_norm", "post_attention_layernorm"},
                                 {"ffn_up", "mlp.dense_h_to_4h"},
                                 {"ffn_down", "mlp.dense_4h_to_h"}}}}};
  all["bloom"] = {.names = {{"token_embd", "transformer.word_embeddings"},
                            {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                            {"output_norm", "transformer.ln_f"},
                            {"output", "lm_head"}},
                  .layers = {{"blk.",
                              "transformer.h.",
                              {{"attn_norm", "input_layernorm"},
                               {"attn_qkv", "self_attention.query_key_value", fused_by_kind},
                               {"attn_output", "self_attention.dense"},
                               {"ffn_norm", "post_attention_layernorm"},
                               {"ffn_up", "mlp.dense_h_to_4h"},
                               {"ffn_down", "mlp.dense_4h_to_h"}}}}};
  all["mpt"] = {.names = {{"token_embd", "transformer.wte"},
                          {"output_norm", "transformer.norm_f"},
                          {"output", "lm_head"}},
                .layers = {{"blk.",
                            "transformer.blocks.",
                            {{"attn_norm", "norm_1"},
                             {"attn_qkv", "attn.Wqkv"},
                             {"attn_output", "attn.out_proj"},
                             {"ffn_norm", "norm_2"},
                             {"ffn_up", "ffn.up_proj"},
                             {"ffn_down", "ffn.down_proj"}}}}};
  all["modern-bert"] = {.names = {{"token_embd", "embeddings.tok_embeddings"},
                                  {"token_embd_norm", "embeddings.norm"},
                                  {"output_norm", "final_norm"}},
                        .layers = {{"blk.",
                                    "layers.",
                                    {{"attn_norm", "attn_norm"},
                                     {"attn_qkv", "attn.Wqkv"},
                                     {"attn_output", "attn.Wo"},
                                     {"ffn_norm", "mlp_norm"},
                                     {"ffn_up", "mlp.Wi"},
                                     {"ffn_down", "mlp.Wo"}}}}};
  all["t5"] = all["t5encoder"] = t5_names();
  all["bert"] = bert_names(none, false);
  return all;
}

const std::map<std::string, GgufArchitecture, std::less<>>& architectures() {
  static const std::map<std::string, GgufArchitecture, std::less<>> all = all_names();
  return all;
}

// Those that the name of the architecture does not tell.
const GgufArchitecture& variant_names(const std::string& name) {
  static const GgufArchitecture ungated = ungated_t5_names(), roberta = bert_names(no_offset, true),
                                distilbert = {.names = {{"token_embd", "embeddings.word_embeddings"},
                                                        {"position_embd", "embeddings.position_embeddings"},
                                                        {"token_embd_norm", "embeddings.LayerNorm"},
                                                        {"cls", "pre_classifier"},
                                                        {"cls.output", "classifier"}},
                                              .layers = {{"blk.",
                                                          "transformer.layer.",
                                                          {{"attn_q", "attention.q_lin"},
                                                           {"attn_k", "attention.k_lin"},
                                                           {"attn_v", "attention.v_lin"},
                                                           {"attn_output", "attention.out_lin"},
                                                           {"attn_output_norm", "sa_layer_norm"},
                                                           {"ffn_up", "ffn.lin1"},
                                                           {"ffn_down", "ffn.lin2"},
                                                           {"layer_output_norm", "output_layer_norm"}}}}};
  return name == "ungated" ? ungated : name == "distilbert" ? distilbert : roberta;
}

// A tensor's name before and from its last dot on: "blk.0.attn_q", ".weight".
std::pair<std::string_view, std::string_view> stem_and_ending(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return {name, {}};
  return {name.substr(0, dot), name.substr(dot)};
}

// "3." of "blk.3.attn_q", for layers "blk."; empty: it is in no layer.
std::string_view layer_number(std::string_view stem, std::string_view layers) {
  if (!stem.starts_with(layers)) return {};
  const std::string_view rest = stem.substr(layers.size());
  return rest.substr(0, rest.find('.') + 1);
}

// Whether `name` is `pattern`, with a number in the place of its #, if it has one.
bool matches(std::string_view pattern, std::string_view name, std::int64_t& number) {
  const std::size_t place = pattern.find('#');
  if (place == std::string_view::npos) return pattern == name;
  const std::string_view before = pattern.substr(0, place), after = pattern.substr(place + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
    return false;
  const char *begin = name.data() + before.size(), *end = name.data() + name.size() - after.size();
  const auto read = std::from_chars(begin, end, number);
  return read.ec == std::errc() && read.ptr == end;
}

std::optional<GgufPlace> place_among(const std::vector<GgufName>& names, std::string_view stem,
                                     std::string_view prefix, std::string_view ending) {
  // The last: of two that stand for one, the first is another architecture's.
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    GgufPlace place{.name = std::string(prefix).append(name->gguf).append(ending), .change = name->change};
    if (name->change != unread && matches(name->hugging_face, stem, place.expert)) return place;
  }
  return std::nullopt;
}

}  // namespace

std::string gguf_architecture_name(const GgufFile& file) {
  const auto name = file.string("general.architecture");
  if (!name) file.fail("general.architecture", "the name of a kind of model", "none");
  return *name;
}

std::string gguf_bert_kind(const GgufFile& file) {
  const std::string tokens = file.string("tokenizer.ggml.model").value_or("bert");
  const bool offset = file.has("tokenizer.ggml.padding_token_id");
  if (tokens == "gpt2" && offset) return "roberta";
  if (tokens == "t5" && offset) return "xlm-roberta";
  return file.find("token_types.weight") == nullptr ? "distilbert" : "bert";
}

const GgufArchitecture& gguf_architecture(const GgufFile& file) {
  const auto& all = architectures();
  const std::string name = gguf_architecture_name(file);
  const auto found = all.find(name);
  if (found == all.end()) file.fail("general.architecture", "one of " + joined_keys(all), name);
  const bool t5 = name == "t5" || name == "t5encoder";
  if (t5 && file.find("enc.blk.0.ffn_gate.weight") == nullptr) return variant_names("ungated");
  if (name == "bert" && gguf_bert_kind(file) != "bert") return variant_names(gguf_bert_kind(file));
  return found->second;
}

const GgufArchitecture* gguf_architecture(std::string_view name) {
  const auto found = architectures().find(name);
  return found == architectures().end() ? nullptr : &found->second;
}

GgufPlace hugging_face_place(const GgufArchitecture& architecture, const std::string& gguf) {
  const auto [stem, ending] = stem_and_ending(gguf);
  const auto among = [&, tail = std::string(ending)](const std::vector<GgufName>& names,
                                                     std::string_view last,
                                                     const std::string& prefix) -> std::optional<GgufPlace> {
    for (const GgufName& name : names) {
      if (name.gguf == last) return GgufPlace{prefix + std::string(name.hugging_face) + tail, name.change};
    }
    return std::nullopt;
  };
  if (const auto whole = among(architecture.names, stem, "")) return *whole;
  for (const GgufLayers& layers : architecture.layers) {
    const std::string_view number = layer_number(stem, layers.gguf);
    if (number.empty()) continue;
    const std::string prefix = std::string(layers.hugging_face).append(number);
    const std::string_view last = stem.substr(layers.gguf.size() + number.size());
    if (const auto inside = among(layers.names, last, prefix)) return *inside;
  }
  return {gguf};
}

std::optional<GgufPlace> gguf_place(const GgufArchitecture& architecture, const std::string& hugging_face) {
  const auto [stem, ending] = stem_and_ending(hugging_face);
  if (const auto whole = place_among(architecture.names, stem, "", ending)) return whole;
  for (const GgufLayers& layers : architecture.layers) {
    const std::string_view number = layer_number(stem, layers.hugging_face);
    if (number.empty()) continue;
    const std::string prefix = std::string(layers.gguf).append(number);
    const std::string_view last = stem.substr(layers.hugging_face.size() + number.size());
    if (const auto inside = place_among(layers.names, last, prefix, ending)) return inside;
  }
  return std::nullopt;
}

std::vector<std::int32_t> gguf_row_order(GgufChange change, std::int64_t heads, std::int64_t rows) {
  std::vector<std::int32_t> order;
  const auto add = [&](std::int64_t row) { order.push_back(static_cast<std::int32_t>(row)); };
  if (change == query_pairs || change == key_pairs) {
    const std::int64_t half = rows / heads / 2;
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t j = 0; j < half; ++j) add(head * 2 * half + 2 * j + i);
      }
    }
  }
  if (change == fused_by_kind) {
    const std::int64_t size = rows / heads / 3;
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t kind = 0; kind < 3; ++kind) {
        for (std::int64_t j = 0; j < size; ++j) add((kind * heads + head) * size + j);
      }
    }
  }
  return order;
}

}  // namespace heed::io
