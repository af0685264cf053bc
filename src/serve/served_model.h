// A model as the server offers it: with its name, its tokenizer, and how it makes vectors and text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "heed/chat/model_chat.h"
#include "heed/generate/options.h"
#include "heed/grammar/token_constraint.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/tasks/embed.h"
#include "heed/tasks/transcribe.h"
#include "heed/text/tokenizer.h"

namespace heed::serve {

/// A way to make vectors, as it is and with vectors of length 1.
struct Recipes {
  EmbeddingRecipe raw, unit;
};

struct ServedModel {
  std::string name;
  std::string directory;  ///< of its files
  std::unique_ptr<const Model> model;
  std::unique_ptr<const Tokenizer> tokenizer;
  GenerationOptions generation;
  std::optional<Transcriber> transcriber;     ///< of a model of speech, which has no recipes
  std::map<std::string, Recipes> recipes;     ///< by the name of the prompt; "": the model's default
  std::optional<ModelChat> chat;              ///< of a model for chats
  std::vector<std::string> token_bytes;       ///< of a decoder, as token_bytes()
  std::optional<TokenVocabulary> vocabulary;  ///< the same, for answers of a given form
  std::map<std::string, TensorMap> steering;  ///< vectors that requests name, by taps
  std::shared_ptr<Tokenizer> translating;     ///< of a model of several languages: the computing thread's own

  const DecoderModel* decoder() const { return dynamic_cast<const DecoderModel*>(model.get()); }
  const EncoderDecoderModel* encoder_decoder() const {
    return dynamic_cast<const EncoderDecoderModel*>(model.get());
  }
  /// Of a model of texts, else null.
  const EncoderModel* encoder() const;
  /// Tokens of a text at most: of the positions and those that training had.
  std::int64_t context() const;
};

/// Loads a model of texts (a decoder, an encoder with or without a head, or an encoder-decoder, whose encoder
/// makes vectors), or one that transcribes speech. Throws Error for another.
ServedModel load_served(const std::string& name, const LocatedModel& located,
                        const WeightOptions& weights = {});

/// The ids of a conversation, a JSON object as ModelChat::prompt() takes it. Throws ApiError where the
/// template refuses, and for a model without one.
std::vector<std::int64_t> chat_prompt(const ServedModel& model, const Json& conversation);

}  // namespace heed::serve
