// Runs many texts through an encoder, sorted by length, in batches of bounded size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"
#include "heed/text/task_options.h"

namespace HEED_API heed {

struct Encoding;
struct ModelInput;
class EncoderModel;
class Model;
class Tokenizer;

/// A text, or a pair that forms one input (a question and its context, or a premise and a hypothesis).
struct TextPair {
  std::string first;
  std::optional<std::string> second = {};
};

/// Returns the maximum number of tokens of one input: the smaller of the model's positions and the
/// tokenizer's model_max_length.
std::int64_t longest_input(const Model& model, const Tokenizer& tokenizer);

/// Returns the tokens of a text, truncated to `longest` with a warning: without its end, or its beginning if
/// `left`. In a pair, the longer text is truncated first. Throws Error if the special tokens alone do not
/// fit.
Encoding encode_cut(const Tokenizer& tokenizer, const TextPair& text, std::int64_t longest,
                    const TaskOptions& options, std::size_t index, bool left = false);

/// Groups inputs of these lengths into batches of similar lengths and returns their indices. A batch has at
/// most `batch_tokens` padded tokens, unless it contains a single input.
std::vector<std::vector<std::size_t>> pack_by_length(std::span<const std::int64_t> lengths,
                                                     std::int64_t batch_tokens);

/// Returns a batch of the chosen encodings, padded with `pad_id`.
ModelInput padded_batch(std::span<const Encoding> encodings, std::span<const std::size_t> chosen,
                        std::int64_t pad_id, bool type_ids);

/// Receives the indices of a batch and what the head reads of its last hidden state
/// (EncoderModel::encode_for_head).
using BatchHandler = std::function<void(std::span<const std::size_t> chosen, const Tensor& hidden)>;

/// Runs the encoder over all encodings, without gradients. The batches come in any order.
void encode_batches(const EncoderModel& model, std::span<const Encoding> encodings,
                    const TaskOptions& options, const BatchHandler& handle);

}  // namespace heed
