// Texts as vectors: what a model's last layer says of the tokens, pooled to one vector a text. A directory as
// sentence-transformers writes it (modules.json) says itself how.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "heed/tasks/batches.h"

namespace heed {

/// How the vectors of a text's tokens h_1 .. h_n become one.
enum class Pooling : std::uint8_t {
  cls,            ///< h_1
  max,            ///< the largest of each number
  mean,           ///< sum h_t / n
  mean_sqrt,      ///< sum h_t / sqrt(n)
  weighted_mean,  ///< sum t h_t / sum t
  last,           ///< h_n
};

/// cls, max, mean, mean_sqrt, weighted_mean or last. Throws Error for another name.
Pooling pooling_named(std::string_view name);

/// A step behind the pooling: a dense layer, a norm over the vector, or the vector made 1 long.
struct EmbeddingStep {
  std::optional<Linear> dense;
  Activation activation = Activation::none;
  std::optional<Norm> norm;
  bool normalize = false;
};

/// From tokens to a vector.
struct EmbeddingRecipe {
  std::vector<Pooling> poolings;  ///< put one after another
  std::vector<EmbeddingStep> steps;
  std::optional<std::int64_t> max_length;      ///< tokens; what is longer is cut
  bool lower_case = false;                     ///< before tokenizing
  std::map<std::string, std::string> prompts;  ///< named texts to put before what is embedded
  std::string prompt;                          ///< put before every text
  bool pool_prompt = true;                     ///< whether the prompt's tokens are pooled too
  bool from_files = false;                     ///< modules.json was there
};

/// The recipe of a model directory: modules.json and what it names; without that, mean pooling for encoders
/// and last for models that see only what came before. Throws Error for a module that is not known.
EmbeddingRecipe load_embedding_recipe(const std::filesystem::path& directory, const Model& model);

/// Where the transformer's own files are in a model directory (modules.json may name a folder in it).
std::filesystem::path transformer_directory(const std::filesystem::path& directory);

/// One row for each text, in their order: f32 [texts, D]. Works for encoders, for the encoder of an
/// encoder-decoder, and for decoders. A text of no tokens (and none added) gives zeros.
Tensor embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
             const EmbeddingRecipe& recipe, const TaskOptions& options = {});

}  // namespace heed
