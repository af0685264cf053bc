// The parts of heed attend: what it feeds a model (a text, a pair, a text with its target, or tensors of a
// file), the ranges of positions that --queries and --keys choose, and the picture that recorded attention
// becomes.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/input/chats.h"
#include "cli/input/models.h"
#include "cli/options/ablation_options.h"
#include "cli/results/pictures.h"
#include "heed/analyses/analyzed.h"
#include "heed/chat/model_chat.h"
#include "heed/generate/options.h"
#include "heed/inspect/ablation.h"
#include "heed/inspect/record.h"
#include "heed/models/kind.h"
#include "heed/models/model.h"
#include "heed/plot/picture.h"
#include "heed/text/tokenizer.h"
#include "inspect/patch_grid.h"

namespace heed::cli {

struct AttendText {
  std::string text;
  std::optional<std::string> pair, target;
  std::optional<std::int64_t> max_new_tokens;
  std::optional<double> start;          // of a recording, in seconds
  std::vector<std::string> texts = {};  // for an image, of a model of two towers
};

struct AttendInput {
  TensorMap tensors;
  std::string title;
  /// By kind; kinds of images and sounds are missing and get labels from add_missing_tokens().
  std::map<std::string, AttentionTokens, std::less<>> tokens;
  /// Of each position with logits: the token that follows in the text or target; -1 where none is known.
  std::vector<std::int64_t> following = {};
  std::optional<std::int64_t> mask_position = std::nullopt;  ///< of the first mask token
  InputImage image = {};                                     ///< what the model sees of an image file
  std::vector<QueryGroup> words = {};                        ///< of an image's caption

  RecordedSound sound = {};        ///< what it hears of a recording
  double window = 0;               ///< seconds of a recording that all keys are
  std::vector<Tensor> texts = {};  ///< token ids, for a model of two towers
  std::string part = {};           ///< which part of a longer recording it is, for a note; empty: all
  std::vector<std::array<std::int64_t, 2>> alignment_heads = {};  ///< layer and head, of a model of speech
};

/// Where tokens and the options for a model's own translation come from.
struct AttendSource {
  const Model& model;
  const Tokenizer* tokenizer;  ///< null where the model's directory has none
  const std::filesystem::path& directory;
  const Globals& globals;
  const ModelChat* chat = nullptr;  ///< if texts are conversations as JSON
};

/// The model's options for generating what is shown, with those of the command line.
GenerationOptions generation_of(const AttendText& text, const AttendSource& source);
/// Encodes a text for any kind of model; an encoder-decoder gets the given target, or its own. Throws Error
/// for an empty text, UsageError for what the kind of model does not take.
AttendInput text_input(const AttendText& text, const AttendSource& source);

/// The tokens that a decoder has read.
AttendInput token_input(const std::vector<std::int64_t>& ids, const std::string& title,
                        const AttendSource& source);
/// Writes the page of the tokens, `begin` to the last, as queries: what each of these attends to.
void write_attention_page(const std::vector<std::int64_t>& ids, std::size_t begin, const std::string& title,
                          const AttendSource& source, const std::string& model,
                          const std::filesystem::path& file);

/// Decodes an image file and preprocesses it as the model's preprocessor_config.json says.
AttendInput image_input(const std::string& file, const AttendSource& source);

/// The same with the caption that the model writes of it, or with the given one.
AttendInput caption_input(const AttendText& text, const EncoderDecoderModel& model,
                          const AttendSource& source);

/// Reads the window of a sound file that begins at text.start, and transcribes it if the model can. Throws
/// Error naming the file for a start beyond its end, and for silence.
AttendInput sound_input(const AttendText& text, const AttendSource& source);

/// Reads an image file, and encodes texts to compare with it: the kinds `text`, or `text 1`, `text 2`, ...
/// Throws Error for a text that is too long.
AttendInput towers_input(const std::string& file, const std::vector<std::string>& texts,
                         const DualEncoderModel& model, const AttendSource& source);
/// Records the towers that options.kinds name, text by text. With a gradient, which is that of the
/// similarity, the image has maps for each text: `image for text 1`, ...
AttentionRecord record_towers(const DualEncoderModel& model, const AttendInput& input, RecordOptions options);
bool is_text_kind(const std::string& kind);
/// Cuts the maps of texts to their last query, whose vector stands for the text, for beside the image.
void keep_last_queries(AttentionPicture& picture);

/// Reads the tensors that the model takes (`pixel_values`, `input_features`, `input_ids`, …; one row) from a
/// safetensors file.
AttendInput tensor_input(const std::filesystem::path& file, const AttendSource& source);

/// Returns the patches that `keys` positions of an image or a spectrogram are, the frames that those of a
/// sound are, or nullopt.
std::optional<inspect::PatchGrid> grid_of_keys(const InputSpec& input, const TensorMap& tensors,
                                               std::int64_t keys);

/// Labels the positions of kinds without tokens: patches of an image by row and column, frames of sound by
/// their time, anything else by number.
void add_missing_tokens(AttendInput& input, const AttentionRecord& record, const InputSpec& spec);

/// The values of --queries and --keys as they were given; empty: all positions.
struct AttendRanges {
  std::string queries, keys;

  bool all() const { return queries.empty() && keys.empty(); }
  /// Throws UsageError for what is no range.
  TapSelection selection() const;
  /// `queries 3:8, keys :4`.
  std::string text() const;
};

/// What is laid over an image or a spectrogram.
struct ChosenPatch {
  std::string place;           ///< --patch ROW,COLUMN; empty: the class token
  std::optional<double> time;  ///< --time: of a frame of a recording, in seconds

  bool any() const { return !place.empty() || time; }
};

struct AttendArguments {
  std::vector<std::string> texts;
  std::optional<std::string> target, pair;
  std::optional<std::int64_t> max_new_tokens;
  std::filesystem::path input;
  ChatArguments chat;
  ModelChoice model{kDefaultTranslator};
  std::string kind;  // empty: cross if the model has it, otherwise self
  std::string layers, heads;
  AttendRanges ranges;
  std::vector<std::string> show;  // empty: weights
  ChosenPatch patch;
  std::optional<double> start;            // of a recording
  std::vector<std::string> images_texts;  // for an image, of a model of two towers
  std::filesystem::path output;
  bool vectors = false;
  std::optional<bool> ablate;  // by default, for a page where it is cheap
  AblationArguments ablation;
  TokenChoice token;  // of --show gradient
  std::optional<std::int64_t> position;
  double width = 0;
  std::string palette = "blue";

  bool shows(const std::string& measure) const {
    return std::find(show.begin(), show.end(), measure) != show.end();
  }
  bool asks_for_each() const { return ablate.value_or(ablation.replacement && ablation.remove.empty()); }
};

/// The maps that --layers and --heads choose.
MapChoice choice_of(const AttendArguments& arguments);
/// Throws UsageError for chosen layers that are not among `layers`.
void check_layers(const MapChoice& choice, const std::set<std::int64_t>& layers);

/// Throws UsageError unless the ranges lie within the tokens of each kind.
void check_ranges(const AttendRanges& ranges, const AttendInput& input,
                  const std::vector<AttentionKind>& kinds);

/// The chosen part of a record of all positions.
AttentionRecord cut_record(const AttendRanges& ranges, const AttentionRecord& record);

/// Cuts the tokens of a picture, what belongs to them, and those of its maps that have all positions. An
/// image is left out where only some of its keys are shown.
void cut_picture(const AttendRanges& ranges, AttentionPicture& picture);

/// Adds the maps of `measure`: weights, norms, gradient, or rollout, which takes the record of all
/// layers. Throws UsageError for heads that do not exist.
void add_measure(AttentionPicture& picture, const AttentionRecord& record, const MapChoice& choice,
                 const std::string& measure);

/// Adds what the page shows beside the maps: norms of values, candidates, the image; and queries and keys,
/// unless there are more than `most_vectors` numbers of them.
void add_page_facts(AttentionPicture& picture, const AttentionRecord& record, const AttendInput& input,
                    const AttendSource& source, std::int64_t most_vectors);

/// What the chosen patch or frame attends to over the image: without one, the class token or, of a model
/// without it, the mean over all patches. Throws UsageError for a patch or a frame that does not exist.
AttentionPicture picture_over_image(AttentionPicture picture, const AttendInput& input,
                                    const AttendSource& source, const ChosenPatch& patch);

/// Over the image, what each word of its caption attends to; without words, each token. Throws UsageError for
/// a patch.
AttentionPicture picture_of_words(AttentionPicture picture, const AttendInput& input,
                                  const AttendSource& source, const ChosenPatch& patch);

/// The words of a recording along its time.
AttentionPicture picture_along_time(AttentionPicture picture, const AttendInput& input,
                                    const AttendSource& source);

/// Adds the mean of the alignment heads of `layers` (empty: all) to the picture: one map of a measure, whose
/// name is that of the last layer's part. Throws UsageError if there is none.
void add_alignment(AttentionPicture& picture, const AttentionRecord& record, const AttendInput& input,
                   const std::string& measure);

/// Runs the model once per head (no `heads`: all) of the record's layers and adds what its logits lose: at
/// each position that of the token that follows, else of the most probable one.
void add_ablations(AttentionPicture& picture, const AttentionRecord& record, HeadAblationOptions options,
                   const AttendInput& input, const AttendSource& source, bool shows_progress);

/// The logit that --show gradient explains: at --position (the mask token's, else the last), of --token or
/// --id (the one that follows in the text, else the most probable). Throws UsageError for those that do not
/// exist, Error for a model without logits.
LogitChoice chosen_logit(std::optional<std::int64_t> position, const TokenChoice& chosen,
                         const AttendInput& input, const AttendSource& source);

/// The token or label that a logit is of.
std::string name_of(std::int64_t token, const AttendSource& source);

}  // namespace heed::cli
