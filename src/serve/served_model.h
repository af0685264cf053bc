// A model as the server offers it: opened, with its name, and what the server itself makes of its parts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "heed/chat/model_chat.h"
#include "heed/grammar/grammar.h"
#include "heed/models/kind.h"
#include "heed/open/loaded_model.h"
#include "heed/tasks/embed.h"
#include "heed/text/tokenizer.h"
#include "server/call.h"

namespace heed::serve {

using server::ApiError;
using server::Call;
using server::Clock;
using server::ErrorCode;
using server::seconds_since;

/// A way to make vectors, as it is and with vectors of length 1.
struct Recipes {
  EmbeddingRecipe raw, unit;
};

struct ServedModel {
  std::string name;
  LoadedModel opened;
  std::string files = {};                 ///< state_of_files() from which it was opened; may be empty
  std::vector<std::string> aliases = {};  ///< further names
  bool has_chat = false;                  ///< a chat template
  std::map<std::string, Recipes> recipes =
      {};                          ///< by the name of the prompt; "": the default; none: it reads no texts
  std::int64_t longest_token = 0;  ///< in bytes
  std::vector<std::string> token_bytes = {};       ///< of a decoder, as token_bytes()
  std::optional<TokenVocabulary> vocabulary = {};  ///< the same, for answers of a given form
  std::map<std::string, TensorMap> steering = {};  ///< vectors that requests name, by taps
  std::shared_ptr<Tokenizer> translating =
      {};  ///< of a model of several languages: the computing thread's own

  const Model& model() const { return opened.model(); }
  const Tokenizer& tokenizer() const { return opened.tokenizer(); }
  /// Null for other models.
  const DecoderModel* decoder() const { return as<DecoderModel>(model()); }
  const EncoderDecoderModel* encoder_decoder() const { return as<EncoderDecoderModel>(model()); }
  const EncoderModel* encoder() const { return as<EncoderModel>(model()); }
  /// Tokens of a text at most: of the positions and those that training had.
  std::int64_t context() const;
  /// What an answer tells of the server and the files that made it.
  std::string fingerprint() const;
  /// The message of an error for clients: with the model's name in place of the path of its files.
  std::string told(const Error& error) const;
  /// The most bytes of a text of so many tokens.
  std::int64_t most_bytes(std::int64_t tokens) const;
};

/// In the order in which they are offered.
using ServedModels = std::vector<std::shared_ptr<const ServedModel>>;

/// Offers a model of texts (a decoder, an encoder with or without a head, or an encoder-decoder, whose
/// encoder makes vectors), or one that transcribes speech: reads the parts that requests need. Throws Error
/// for another.
ServedModel serve_model(const std::string& name, LoadedModel opened);

/// An id of a token below `count`, given in a member `key` of a request. Throws ApiError that names another.
std::int64_t token_id(const char* key, const Json& given, std::int64_t count);

/// The prompt of a conversation, an object as chat::Conversation takes it. Throws ApiError where the
/// template refuses, and for a model without one.
EncodedChat chat_prompt(const ServedModel& model, Json conversation);

}  // namespace heed::serve
