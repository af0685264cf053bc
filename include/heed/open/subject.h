// What a model is given: a text, a pair, a text with its target, token ids, an image or a sound, or tensors,
// as named inputs of one row, with labels of the positions of each kind of attention, and with the image or
// the sound that they are parts of.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/error.h"
#include "heed/export.h"
#include "heed/plot/picture.h"
#include "heed/tensor.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

class LoadedModel;
class Model;
class SoundReader;
namespace tasks {
struct FileLimits;
struct FileProcessor;
}  // namespace tasks

/// An option that does not fit the model or the input: `token: expected one token, got 3`.
class OptionError : public Error {
 public:
  OptionError(const std::string& option, const std::string& message) : Error(option + ": " + message) {}
};

/// The parts of a model that make its inputs.
struct ModelParts {
  const Model& model;
  const Tokenizer* tokenizer = nullptr;             ///< null: token ids are labelled by their numbers
  const tasks::FileProcessor* processor = nullptr;  ///< of a model of images or sounds
  std::string where = {};                           ///< what messages about texts begin with; may be empty
};
/// Those of an opened model. Throws Error where a part that it needs is missing or malformed.
ModelParts parts_of(const LoadedModel& model);

struct Subject {
  TensorMap inputs = {};
  /// Labels by kind of attention: tokens, patches by row and column, or frames by their time. Rows of cross-
  /// attention are what is produced: the position that predicts a token attends for it.
  std::map<std::string, AttentionTokens, std::less<>> tokens = {};
  std::vector<std::int64_t> source = {};     ///< ids of the text; none for a file
  std::vector<std::int64_t> read = {};       ///< ids that the stack which predicts reads
  std::vector<std::int64_t> following = {};  ///< after each position with logits, the id that follows, or -1
  std::string title = {};
  std::optional<std::int64_t> mask_position = {};  ///< of the first mask token
  InputImage image = {};     ///< what the model sees of an image, or a sound as it is drawn
  RecordedSound sound = {};  ///< the seconds that the image of a sound has, and the words that were heard
  std::vector<QueryGroup> words = {};  ///< of an image's caption: the tokens of each word
  std::vector<Tensor> texts = {};      ///< beside an image, of a model of both: ids of each text, i64 [1, T]
  double window = 0;      ///< of a part of a recording: the seconds of all frames, padding included
  std::string note = {};  ///< which part of a longer recording it is; empty: all
  std::vector<std::array<std::int64_t, 2>> alignment_heads = {};  ///< layer and head, of a Whisper
  std::int64_t prefix = 0;  ///< of a transcript: how many ids of `read` come before its text
};

/// How token ids are labelled, and how targets end.
struct SubjectOptions {
  std::function<std::string(std::int64_t id)> label = {};  ///< by default the tokenizer's token
  /// A target of an encoder-decoder that does not end gets the end token, labelled `…`: what the last
  /// position predicts is shown as well.
  bool with_end = false;
};

/// A text, with the second one of a pair for an encoder or the target for an encoder-decoder. Throws Error
/// for a text without tokens, for a target or a pair that the model does not take, and for a missing target.
Subject subject_of_text(const ModelParts& model, const std::string& text,
                        const std::optional<std::string>& pair, const std::optional<std::string>& target,
                        const SubjectOptions& options = {});
/// Tokens, with the ids of the target for an encoder-decoder. Throws Error as above.
Subject subject_of_tokens(const ModelParts& model, const Encoding& text,
                          const std::optional<std::vector<std::int64_t>>& target = {},
                          const SubjectOptions& options = {});
Subject subject_of_ids(const ModelParts& model, const std::vector<std::int64_t>& ids,
                       const std::optional<std::vector<std::int64_t>>& target = {},
                       const SubjectOptions& options = {});
/// An image or a sound: a file, or the bytes of one, which messages call `name`. Of an encoder-decoder, the
/// source alone: add_target() makes it whole. Throws Error for what is no whole image or sound, does not fit
/// the model, or has no patch or frame.
Subject subject_of_file(const ModelParts& model, const std::string& file);
Subject subject_of_file(const ModelParts& model, std::string_view bytes, const std::string& name,
                        const tasks::FileLimits& limits);
/// Tensors by their names, of one row; `input_ids` and `labels` are token ids. An encoder-decoder reads
/// `decoder_input_ids`, or the labels shifted right. Throws Error, as `where`, for more rows, and where both
/// are missing.
Subject subject_of_tensors(const ModelParts& model, TensorMap tensors, const std::string& where);

/// Adds what an encoder-decoder produces: its decoder reads it shifted right.
void add_target(Subject& subject, const ModelParts& model, const std::vector<std::int64_t>& target,
                const SubjectOptions& options = {});

/// A subject as users give it.
struct SubjectRequest {
  std::string given;  ///< a text, or the name of an image or sound file
  std::optional<std::string> pair = {};
  std::optional<std::string> target = {};  ///< nullopt: what the model itself makes of a text or an image
  bool is_chat = false;                 ///< `given` is a conversation as JSON, for a decoder with a template
  std::vector<std::string> texts = {};  ///< to compare an image with, for a model of both
  std::optional<double> start = {};     ///< of the part of a recording, in seconds
  /// A decoder continues the text first; of others, the length of what they make.
  std::optional<std::int64_t> max_new_tokens = {};
  std::function<std::uint64_t()> seed = {};  ///< called where the model's settings sample
  const std::atomic<bool>* stop = nullptr;   ///< cancels transcribing once true: it throws Canceled
  /// SoundOptions::on_warning, of a recording.
  std::function<void(const std::string& message)> on_warning = {};
};

/// The subject of a model of any kind. An encoder-decoder produces the target, or its own translation,
/// caption or transcript. Of a recording the subject is a part: the window of a model that transcribes, else
/// at most 20 s. Of two towers, `texts` are the kinds `text`, or `text 1`, `text 2`, ... Positions whose
/// number a pass tells have no labels. Throws OptionError for what the model does not take, Error for a text
/// without tokens, for silence, and for a start beyond the end of a recording.
Subject subject_of(const LoadedModel& model, const SubjectRequest& request);
/// The same of a model of sounds; and of what a reader at the model's rate reads, in the place of `given`.
Subject subject_of_recording(const LoadedModel& model, const SubjectRequest& request);
Subject subject_of_recording(const LoadedModel& model, SoundReader reader, const SubjectRequest& request);

/// Several texts side by side, padded on the right to the longest: `input_ids` and `attention_mask`, i64
/// [B, T], and `token_type_ids` for a model that reads them. With targets, for an encoder-decoder, also
/// `labels`, -100 for padding, and `decoder_input_ids`, which are the labels shifted right.
TensorMap side_by_side(const Model& model, std::span<const Encoding> texts,
                       std::span<const Encoding> targets = {});
/// The same without a model, padded with `pad_id`.
TensorMap side_by_side(std::span<const Encoding> texts, std::int64_t pad_id, bool type_ids);

}  // namespace heed
