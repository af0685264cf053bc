// Chooses and makes models and tokenizers for training tasks.
#include "train/tasks/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "heed/error.h"
#include "heed/models/find_model.h"
#include "heed/models/kind.h"
#include "heed/models/registry.h"
#include "heed/train/adamw.h"
#include "tensor/impl.h"
#include "tensor/quantized_matrix.h"

namespace heed {
namespace {

// New heads use the first random streams of the same seed, dropout those from 2^32.
constexpr std::uint64_t kFirstAdapterStream = std::uint64_t{1} << 31;

// Whether `name` matches `pattern`, in which * matches any text.
bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() != '*')
    return !name.empty() && name.front() == pattern.front() && matches(name.substr(1), pattern.substr(1));
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (matches(name.substr(i), pattern.substr(1))) return true;
  }
  return false;
}

// Adds the members of a new Marian model, whose sizes a recipe gives by shorter names.
void add_marian_sizes(JsonWriter& json, const Recipe::Model& m) {
  json.field("d_model", m.d_model)
      .field("encoder_layers", m.encoder_layers)
      .field("decoder_layers", m.decoder_layers)
      .field("encoder_attention_heads", m.heads)
      .field("decoder_attention_heads", m.heads)
      .field("encoder_ffn_dim", m.ffn)
      .field("decoder_ffn_dim", m.ffn)
      .field("max_position_embeddings", m.max_positions)
      .field("activation_function", m.activation)
      .field("dropout", m.dropout)
      .field("attention_dropout", m.attention_dropout)
      .field("activation_dropout", m.activation_dropout);
}

// The members of a new encoder-decoder's config.json that follow from the tokenizer.
std::string encoder_decoder_members(const Recipe& recipe, const Tokenizer& tokenizer) {
  if (!tokenizer.pad_id() || !tokenizer.eos_id()) {
    throw Error(fmt::format("{}: expected a tokenizer with padding and an end token, got one without {}",
                            recipe.tokenizer.from.string(), tokenizer.pad_id() ? "an end token" : "padding"));
  }
  const std::int64_t pad = *tokenizer.pad_id(), eos = *tokenizer.eos_id();
  const bool bart = recipe.model.family == "bart";
  JsonWriter json;
  json.begin_object().field("is_encoder_decoder", true).field("decoder_start_token_id", bart ? eos : pad);
  if (bart) json.field("forced_eos_token_id", eos);
  if (recipe.model.family == "marian") {
    json.field("architectures", std::vector<std::string>{"MarianMTModel"})
        .field("decoder_vocab_size", tokenizer.vocab_size())
        .field("scale_embedding", true)
        .field("share_encoder_decoder_embeddings", true)
        .field("tie_word_embeddings", true)
        .field("forced_eos_token_id", eos);
  }
  return json.end_object().text();
}

// Asks for the recipe's own names of Marian's sizes, so that messages about unknown keys may suggest them.
void ask_for_recipe_keys(const Config& config, const Recipe& recipe) {
  constexpr std::string_view kSection = "model.";
  for (const auto& [key, value] : recipe_values(recipe)) {
    const std::string name = key.starts_with(kSection) ? key.substr(kSection.size()) : "";
    if (!name.empty() && !config.has(name)) static_cast<void>(config.optional_string(name));
  }
}

std::string settings_json(const std::map<std::string, std::string>& settings) {
  std::string text = "{";
  for (const auto& [key, value] : settings) {
    if (text.size() > 1) text += ", ";
    text += JsonWriter().value(key).text() + ": " + value;
  }
  return text + "}";
}

constexpr const char* kModelSection = "recipe: [model]";

// With the sizes and settings that the recipe gives.
Config with_settings(const Config& base, const Recipe& recipe) {
  const bool marian = recipe.model.family == "marian";
  const Config config = (marian ? base : base.with(settings_json(recipe.model.sizes)))
                            .with(settings_json(recipe.model.settings));
  if (marian) ask_for_recipe_keys(config, recipe);
  return config;
}

// The matrices of a model whose adapter is trained: nobody updates or saves them.
void narrow_base(const Model& model) {
  for (const Parameter& p : model.parameters()) {
    if (p.tensor.requires_grad() || !takes_bf16(p) || quantized_of(p.tensor) != nullptr) continue;
    set_data(p.tensor, p.tensor.detach().to(DType::bf16));
  }
}

}  // namespace

std::filesystem::path model_source(const TrainOptions& options, const std::filesystem::path& checkpoint) {
  if (!checkpoint.empty()) return checkpoint;
  if (!options.init.empty() && options.on_message) {
    options.on_message("starting from the model and tokenizer of " + options.init.string() +
                       "; [model] and [tokenizer] of the recipe are not used");
  }
  return options.init;
}

Config new_model_config(const Recipe& recipe, const Tokenizer& tokenizer, const std::string& members) {
  const std::string& family = recipe.model.family;
  JsonWriter json(2);
  json.begin_object();
  json.field("model_type", family).field("vocab_size", tokenizer.vocab_size());
  // Null where there is none, as the family's default would be another token.
  json.field("pad_token_id", tokenizer.pad_id());
  json.field("bos_token_id", tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.cls_id());
  json.field("eos_token_id", tokenizer.eos_id() ? tokenizer.eos_id() : tokenizer.sep_id());
  if (tokenizer.cls_id()) json.field("cls_token_id", tokenizer.cls_id());
  if (tokenizer.sep_id()) json.field("sep_token_id", tokenizer.sep_id());
  if (family == "marian") add_marian_sizes(json, recipe.model);
  json.end_object();
  return with_settings(Config::parse(json.text(), kModelSection).with(members), recipe);
}

Config new_model_config(const Recipe& recipe, const std::string& members) {
  const std::string family =
      JsonWriter().begin_object().field("model_type", recipe.model.family).end_object().text();
  return with_settings(Config::parse(family, kModelSection).with(members), recipe);
}

TokenizerTraining tokenizer_training(const Recipe& recipe, std::int64_t model_max_length) {
  constexpr std::int64_t kLongestSentence = 1 << 16;  // in bytes
  const Recipe::Tokenizer& t = recipe.tokenizer;
  TokenizerTraining training;
  training.type = t.type;
  training.special_tokens = t.special_tokens;
  training.vocab_size = t.vocab_size;
  training.model_max_length = model_max_length;
  training.sentencepiece.character_coverage = t.character_coverage;
  training.sentencepiece.byte_fallback = t.byte_fallback;
  training.sentencepiece.normalization = t.normalization;
  training.sentencepiece.max_sentence_bytes = kLongestSentence;
  return training;
}

std::unique_ptr<Tokenizer> tokenizer_for(const Recipe& recipe, const TrainOptions& options,
                                         const std::filesystem::path& from, const SentenceSource& texts) {
  const std::filesystem::path& given = from.empty() ? recipe.tokenizer.from : from;
  if (!given.empty()) return load_tokenizer(given);
  TokenizerTraining training;
  training.type = recipe.tokenizer.type;
  training.special_tokens = recipe.tokenizer.special_tokens;
  training.vocab_size = recipe.tokenizer.vocab_size;
  if (options.on_message) options.on_message(fmt::format("training a {} tokenizer", training.type));
  return train_tokenizer(training, texts);
}

std::unique_ptr<EncoderModel> encoder_for(const Recipe& recipe, const Tokenizer& tokenizer,
                                          const std::filesystem::path& from, const std::string& head,
                                          const std::string& members) {
  Generator generator = initial_weights(recipe);
  const Config config = from.empty() ? new_model_config(recipe, tokenizer, "{}") : load_model_config(from);
  const Config with_head =
      config.with("{\"architectures\": [\"" + class_with_head(config, head) + "\"]}").with(members);
  return from.empty() ? make_as<EncoderModel>(with_head, generator)
                      : load_encoder(from, with_head, generator);
}

std::unique_ptr<EncoderDecoderModel> encoder_decoder_for(const Recipe& recipe, const Tokenizer& tokenizer,
                                                         const std::filesystem::path& from) {
  std::unique_ptr<Model> model;
  if (from.empty()) {
    Generator generator = initial_weights(recipe);
    model = make_model(new_model_config(recipe, tokenizer, encoder_decoder_members(recipe, tokenizer)),
                       generator);
  } else {
    model = load_model(from);
  }
  auto* encoder_decoder = as<EncoderDecoderModel>(model.get());
  if (encoder_decoder == nullptr || encoder_decoder->input().kind != InputKind::tokens) {
    const bool decoder = as<DecoderModel>(model.get()) != nullptr;
    throw Error(fmt::format("{}: expected an encoder-decoder of texts for the task {}, got {}{}",
                            from.empty() ? "recipe: [model]" : from.string(), recipe.task.kind,
                            model->family(),
                            encoder_decoder != nullptr ? ", which reads sound"
                            : decoder                  ? ", a decoder (task.kind = \"causal-lm\" trains it)"
                                      : ", an encoder (task.kind = \"masked-lm\" trains it on texts)"));
  }
  static_cast<void>(model.release());
  return std::unique_ptr<EncoderDecoderModel>(encoder_decoder);
}

Generator initial_weights(const Recipe& recipe) {
  return Generator(static_cast<std::uint64_t>(recipe.train.seed));
}

std::filesystem::path adapted_model(const TrainOptions& options, const std::filesystem::path& checkpoint) {
  if (!options.init.empty()) return options.init;
  if (!checkpoint.empty()) return find_model(base_of_adapter(checkpoint));
  throw Error("recipe: [lora]: expected a model whose adapter is trained, got none (give --init MODEL)");
}

std::vector<Parameter> trained_parameters(Model& model, const Recipe& recipe,
                                          const std::vector<Parameter>& behind) {
  if (recipe.lora.rank > 0) {
    Generator generator = initial_weights(recipe);
    generator.seek(kFirstAdapterStream);
    std::vector<Parameter> adapter = model.train_adapter(recipe.lora, generator);
    if (recipe.train.weights == "bf16") narrow_base(model);
    return adapter;
  }
  std::vector<Parameter> trained = model.parameters();
  trained.insert(trained.end(), behind.begin(), behind.end());
  std::istringstream patterns(recipe.task.freeze);
  for (std::string pattern; patterns >> pattern;) {
    bool found = false;
    std::erase_if(trained, [&](Parameter& p) {
      if (!matches(p.name, pattern)) return false;
      found = true;
      p.tensor.set_requires_grad(false);
      return true;
    });
    if (!found) {
      throw Error(
          fmt::format("recipe: task.freeze: expected a pattern of parameter names such as {}*, got \"{}\", "
                      "which matches none that is not yet frozen",
                      model.parameters().front().name.substr(0, 12), pattern));
    }
  }
  if (trained.empty())
    throw Error("recipe: task.freeze: expected parameters left to train, got all of them frozen");
  return trained;
}

void check_fits(const Tokenizer& tokenizer, const Model& model) {
  if (tokenizer.vocab_size() <= model.vocab_size()) return;
  throw Error(fmt::format(
      "train: expected a tokenizer of at most {} tokens, as many as this {} model has, got one of {} "
      "(it belongs to another model)",
      model.vocab_size(), model.family(), tokenizer.vocab_size()));
}

void report_other_ids(const Tokenizer& tokenizer, const std::filesystem::path& from,
                      const TrainOptions& options) {
  if (from.empty() || !options.on_message) return;
  const Config config = load_model_config(from);
  for (const auto& [key, id] :
       {std::pair("pad_token_id", tokenizer.pad_id()), std::pair("bos_token_id", tokenizer.bos_id()),
        std::pair("eos_token_id", tokenizer.eos_id())}) {
    const std::vector<std::int64_t> ids = config.integers(key);
    if (!id || ids.empty() || std::find(ids.begin(), ids.end(), *id) != ids.end()) continue;
    options.on_message(
        fmt::format("warning: {}: {}: expected {}, the tokenizer's, got {} (does the tokenizer "
                    "belong to this model?)",
                    config.where(), key, *id, ids.front()));
  }
}

std::string describe_model(const Model& model) {
  std::int64_t numbers = 0;
  for (const Parameter& p : model.parameters()) numbers += p.tensor.numel();
  return fmt::format("a {} model of {} parameters", model.family(), numbers);
}

std::string describe_model(const Model& model, const Tokenizer& tokenizer) {
  return fmt::format("{}, a vocabulary of {}", describe_model(model), tokenizer.vocab_size());
}

std::string Fingerprint::text() const { return fmt::format("{:016x}", hash_); }

}  // namespace heed
