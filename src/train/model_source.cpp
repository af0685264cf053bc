// Chooses and makes models and tokenizers for training tasks.
#include "train/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "heed/error.h"
#include "heed/models/registry.h"

namespace heed {
namespace {

// Whether `name` matches `pattern`, in which * stands for any text.
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

std::string settings_json(const std::map<std::string, std::string>& settings) {
  std::string text = "{";
  for (const auto& [key, value] : settings) {
    if (text.size() > 1) text += ", ";
    text += JsonWriter().value(key).text() + ": " + value;
  }
  return text + "}";
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
  if (tokenizer.pad_id()) json.field("pad_token_id", tokenizer.pad_id());
  // Null where there is none, as other tools would take the family's default.
  json.field("bos_token_id", tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.cls_id());
  json.field("eos_token_id", tokenizer.eos_id() ? tokenizer.eos_id() : tokenizer.sep_id());
  if (family == "marian") add_marian_sizes(json, recipe.model);
  json.end_object();
  const Config config = Config::parse(json.text(), "recipe: [model]");
  return config.with(members).with(settings_json(recipe.model.settings));
}

Generator initial_weights(const Recipe& recipe) {
  return Generator(static_cast<std::uint64_t>(recipe.train.seed));
}

std::vector<Parameter> trained_parameters(const Model& model, const Recipe& recipe) {
  std::vector<Parameter> trained = model.parameters();
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

std::string describe_model(const Model& model, const Tokenizer& tokenizer) {
  std::int64_t numbers = 0;
  for (const Parameter& p : model.parameters()) numbers += p.tensor.numel();
  return fmt::format("a {} model of {} parameters, a vocabulary of {}", model.family(), numbers,
                     tokenizer.vocab_size());
}

std::string Fingerprint::text() const { return fmt::format("{:016x}", hash_); }

}  // namespace heed
