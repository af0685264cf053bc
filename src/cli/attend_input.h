// What heed attend feeds a model: a text, a pair, a text with its target, or tensors of a file.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "heed/inspect/record.h"
#include "heed/models/model.h"
#include "heed/plot/picture.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {

struct AttendText {
  std::string text;
  std::optional<std::string> pair, target;
  std::optional<std::int64_t> max_new_tokens;
};

struct AttendInput {
  TensorMap tensors;
  std::string title;
  /// By kind; kinds of images and sounds are missing and get labels from add_missing_tokens().
  std::map<std::string, AttentionTokens, std::less<>> tokens;
  /// Of each position with logits: the token that follows in the text or target; -1 where none is known.
  std::vector<std::int64_t> following = {};
  std::optional<std::int64_t> mask_position = std::nullopt;  ///< of the first mask token
};

/// Where tokens and the options for a model's own translation come from.
struct AttendSource {
  const Model& model;
  const Tokenizer* tokenizer;  ///< null where the model's directory has none
  const std::filesystem::path& directory;
  const Globals& globals;
};

/// Encodes a text for any kind of model; an encoder-decoder gets the given target, or its own. Throws Error
/// for an empty text, UsageError for what the kind of model does not take.
AttendInput text_input(const AttendText& text, const AttendSource& source);

/// Reads the tensors that the model takes (`pixel_values`, `input_features`, `input_ids`, …; one row) from a
/// safetensors file.
AttendInput tensor_input(const std::filesystem::path& file, const AttendSource& source);

/// The keys of an image or a sound: rows and columns of its parts, after `first` other positions.
struct PatchGrid {
  std::int64_t rows = 0, columns = 0, first = 0;
};

/// Returns the square patches that `keys` positions of `pixel_values` are, the frames that those of
/// `input_features` are, or nullopt.
std::optional<PatchGrid> patch_grid(const TensorMap& tensors, std::int64_t keys);

/// Labels the positions of kinds without tokens: patches of an image by row and column, frames of sound by
/// their time, anything else by number.
void add_missing_tokens(AttendInput& input, const AttentionRecord& record);

}  // namespace heed::cli
