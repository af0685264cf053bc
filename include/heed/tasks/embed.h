// Text embeddings: the last hidden states of the tokens, pooled to one vector per text. The directory of a
// sentence-transformers model (modules.json) defines the pooling.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "heed/tasks/batches.h"

namespace HEED_API heed {

class ImageProcessor;
class ModelFiles;

/// Pooling of the hidden states h_1 .. h_n of a text's tokens into one vector.
enum class Pooling : std::uint8_t {
  cls,            ///< h_1
  max,            ///< element-wise maximum
  mean,           ///< sum h_t / n
  mean_sqrt,      ///< sum h_t / sqrt(n)
  weighted_mean,  ///< sum t h_t / sum t
  last,           ///< h_n
};

/// Parses cls, max, mean, mean_sqrt, weighted_mean or last. Throws Error for any other name.
Pooling pooling_named(std::string_view name);

/// A step after the pooling: a dense layer, a norm, or scaling to unit length.
struct EmbeddingStep {
  std::optional<Linear> dense;
  Activation activation = Activation::none;
  std::optional<Norm> norm;
  bool normalize = false;
};

/// How to compute the vector of a text.
struct EmbeddingRecipe {
  /// The results of the poolings are concatenated. Without any, the model computes the vectors itself
  /// (EncoderModel::vectors, for CLIP and SigLIP).
  std::vector<Pooling> poolings;
  std::vector<EmbeddingStep> steps;
  std::optional<std::int64_t> max_length;      ///< in tokens; longer texts are truncated
  bool lower_case = false;                     ///< before tokenizing
  std::map<std::string, std::string> prompts;  ///< named prefixes
  std::string prompt;                          ///< prefix of every text
  bool pool_prompt = true;                     ///< include the prompt's tokens in the pooling
  bool from_files = false;                     ///< read from modules.json
  std::string similarity;                      ///< default similarity of the vectors: see similarity_named()
};

/// Loads the recipe of a model directory from modules.json and the files it names. Without modules.json: the
/// model's own vectors if it computes any; else cls pooling for images, mean for other encoders, last for
/// decoders. Throws Error for an unknown module.
EmbeddingRecipe load_embedding_recipe(const std::filesystem::path& directory, const Model& model);
EmbeddingRecipe load_embedding_recipe(const ModelFiles& files, const Model& model);

/// The recipe for texts that search, with the model's prompt `query`, or for texts that are found, with
/// `document` or `passage`; with its default prompt, if it has none of these names.
EmbeddingRecipe for_queries(EmbeddingRecipe recipe);
EmbeddingRecipe for_documents(EmbeddingRecipe recipe);

/// Writes modules.json and the files it names beside the files of a model in `directory`, as
/// sentence-transformers and load_embedding_recipe() read them; `width` is that of its token vectors. Throws
/// Error for a recipe without a pooling.
void save_embedding_recipe(const EmbeddingRecipe& recipe, std::int64_t width,
                           const std::filesystem::path& directory);

/// Returns the folder of the transformer's files in a model directory (modules.json may name a subfolder).
std::filesystem::path transformer_directory(const std::filesystem::path& directory);
ModelFiles transformer_files(const ModelFiles& files);

/// Returns the tokens of texts as embed() reads them: with the recipe's prompt, and at most as many as model,
/// tokenizer and recipe allow, with a warning for texts that are cut: at the beginning if `left`.
std::vector<Encoding> encode_texts(const Model& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const EmbeddingRecipe& recipe,
                                   const TaskOptions& options = {}, bool left = false);

/// The last hidden state of every token of a text, including added special tokens.
struct TokenEmbeddings {
  std::vector<std::string> tokens;
  Tensor vectors;  ///< f32 [T, D]
};

/// Returns the token vectors of every text, in order: embed() without the pooling and the steps after it.
std::vector<TokenEmbeddings> embed_tokens(const Model& model, const Tokenizer& tokenizer,
                                          std::span<const std::string> texts, const EmbeddingRecipe& recipe,
                                          const TaskOptions& options = {});
/// The same for what encode_texts() returned.
std::vector<TokenEmbeddings> embed_tokens(const Model& model, const Tokenizer& tokenizer,
                                          std::span<const Encoding> texts, const TaskOptions& options = {});

/// Returns f32 [texts, D], one row per text, in order. Works for encoders, for the encoder of an
/// encoder-decoder, and for decoders. A text without tokens gives zeros.
Tensor embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
             const EmbeddingRecipe& recipe, const TaskOptions& options = {});
/// The same for what encode_texts() returned, with `taps` (may be null) in every pass over a batch.
Tensor embed(const Model& model, const Tokenizer& tokenizer, std::span<const Encoding> texts,
             const EmbeddingRecipe& recipe, const TaskOptions& options = {}, Taps* taps = nullptr);

/// The same for image files. The vectors of a model of texts and images can be compared with those of texts.
/// Batches and unreadable files are handled as in classify_images(); the row of an unreadable file is zeros.
/// Throws Error if the model takes no images.
Tensor embed_images(const Model& model, const ImageProcessor& processor, std::span<const std::string> files,
                    const EmbeddingRecipe& recipe, const TaskOptions& options = {});

}  // namespace heed
