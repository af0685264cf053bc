// A model that is explored: its tokenizer, its heads, and texts or files as its input; and the files that the
// page has sent.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "explore/model/value_maps.h"
#include "explore/requests.h"
#include "heed/generate/options.h"
#include "heed/inspect/record.h"
#include "heed/models/model.h"
#include "heed/models/steering.h"
#include "heed/open/loaded_model.h"
#include "heed/open/subject.h"
#include "heed/text/tokenizer.h"
#include "tasks/file_input.h"

namespace heed::explore {

/// Images and sounds that the page sends, in memory only. Threads: one at a time.
class Files {
 public:
  /// Holds a file and returns its number. Beyond 128 MiB or 32 files the oldest are forgotten, but never the
  /// last two: one of each side.
  std::int64_t add(std::string bytes);
  /// Forgets the file that was added last.
  void drop_last();
  /// Throws Error for a number that no file has, or a forgotten one.
  const std::string& bytes(std::int64_t number) const;

 private:
  std::deque<std::pair<std::int64_t, std::string>> files_;
  std::int64_t last_ = 0;
};

/// `text`, `image` or `sound`: what a model reads.
const char* name_of(InputKind kind);

struct ExploredText : Subject {
  std::optional<std::vector<std::int64_t>> target_ids = std::nullopt;  ///< of an encoder-decoder's output
  std::optional<std::int64_t> file = std::nullopt;  ///< whose parts it has, in place of tokens
  std::vector<std::string> labels = {};             ///< with which a model of texts and images compares it
};

/// Threads: one at a time.
class ExploredModel {
 public:
  /// Runs the model once, on one token or an empty image or sound, to see its heads. A model that reads or
  /// writes text has a tokenizer, one that reads files a processor. Throws Error for a model without
  /// attention, and for an encoder-decoder of sounds, which needs an opened model.
  ExploredModel(std::string name, std::shared_ptr<const Model> model,
                std::shared_ptr<const Tokenizer> tokenizer, GenerationOptions generation,
                tasks::FileProcessor processor = {});
  /// The parts of an opened model. Throws Error where a part is missing, and as above but for sounds.
  ExploredModel(std::string name, const LoadedModel& opened);

  const std::string& name() const { return name_; }
  /// LoadedModel::require_unchanged_files() of what was opened.
  void require_unchanged_files() const {
    if (opened_) opened_->require_unchanged_files();
  }
  /// Texts to try, as the model's card names them.
  const std::vector<std::string>& examples() const { return examples_; }
  /// Of a model of texts and images, the tower for images.
  const Model& model() const { return *shown_model_; }

  /// Vectors that a run may add to the stream, each times a strength of its own.
  struct Steering {
    std::string name;
    double most = 1;     ///< the largest strength that the page offers
    std::string layers;  ///< in words: `layers 4 to 8`
    TensorMap vectors;   ///< by the taps that they are added to
  };
  const std::vector<Steering>& steering() const { return steering_; }
  /// Offers the vectors of a file, its strength as the largest. Throws Error naming file and tensor for a
  /// layer or a width that the model does not have.
  void offer_steering(const SteeringSource& source);
  /// The sum of the vectors, each times its strength (those without one times 0), by the taps that they are
  /// added to. Throws Error for more strengths than vectors.
  TensorMap steering_of(const std::vector<double>& strengths) const;
  /// The whole of a model of texts and images that has a tokenizer, which compares an image with labels; null
  /// for others.
  const DualEncoderModel* dual() const { return tokenizer_ == nullptr ? nullptr : dual_; }
  /// The ids of a label, as long as the tower for texts reads them. Throws Error for one without tokens, and
  /// for a longer one.
  std::vector<std::int64_t> label_ids(const std::string& label) const;
  /// Null where the model needs none.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  /// Where the files of requests are.
  void take_files_from(std::shared_ptr<const Files> files) { files_ = std::move(files); }
  /// The text of ids, without special tokens.
  std::string decoded(const std::vector<std::int64_t>& ids) const;
  const std::vector<AttentionKind>& kinds() const { return kinds_; }
  /// Those of a run: where an image is compared with labels, also the kind `text`.
  std::vector<AttentionKind> kinds_of(const ExploredText& text) const;
  /// The kind of a name that heads() knows.
  AttentionKind kind_named(const std::string& name) const;
  /// The number of heads of each layer of a kind. Throws Error that begins with `where` if there is none.
  const std::vector<std::int64_t>& heads(const std::string& kind, const std::string& where = "kind") const;
  /// Empty where the norms of values are to be recorded.
  const ValueMaps& value_maps() const { return value_maps_; }
  /// Whether its inputs are images or sounds.
  bool reads_files() const { return model().input().kind != InputKind::tokens; }
  /// Whether it writes what it hears: an encoder-decoder of sounds. Its kinds of attention are those of the
  /// decoder, and the keys of cross-attention are the frames with sound, without those of padding.
  bool transcribes() const;
  /// `decoder`, `encoder` or `encoder-decoder`
  std::string architecture() const;

  /// The ids of the tokens of a text as the model reads it; of an encoder-decoder those of the source. Throws
  /// Error for a model that reads files.
  std::vector<std::int64_t> ids_of(const RequestedText& text) const;
  /// Encodes a text, takes its ids, or preprocesses its file. An encoder-decoder reads the target, or its own
  /// greedy output of at most `max_new_tokens`, steered by `strengths`, without a final end token; of a
  /// recording, the whole transcript of its first window, not steered. A target of one that transcribes has
  /// the ids before its text. Throws Error for what the model does not take, empty and too long texts,
  /// silence, and ids outside the vocabulary; Canceled once `stop` is true.
  ExploredText text_of(const RequestedText& text, std::int64_t max_new_tokens,
                       const std::vector<double>& strengths, const std::atomic<bool>& stop) const;

  /// The token for readers; the number where it has none.
  const std::string& token(std::int64_t id) const;

 private:
  ModelParts parts() const;
  TensorMap sample_input() const;
  void find_heads();
  void check_ids(const std::vector<std::int64_t>& ids, const char* where) const;
  /// A text or its ids as the model reads them.
  Encoding encoding_of(const RequestedText& text) const;
  /// The same, as its tokens are shown. Throws Error for none, and for those that the model does not read.
  Encoding shown_encoding(const RequestedText& text) const;
  ExploredText file_text(std::int64_t number, const std::atomic<bool>& stop) const;
  ExploredText heard_text(const std::string& bytes, const std::atomic<bool>& stop) const;
  /// What the decoder writes after `prefix` ids of the transcript of `heard`: the text, or all of it.
  std::vector<std::int64_t> transcript_of(const ExploredText& heard,
                                          const std::optional<std::string>& text) const;
  std::vector<std::int64_t> greedy_output(const EncoderDecoderModel& both, const ExploredText& source,
                                          std::int64_t max_new_tokens, const std::vector<double>& strengths,
                                          const std::atomic<bool>& stop) const;

  std::string name_;
  std::optional<LoadedModel> opened_;
  std::vector<std::string> examples_;
  std::vector<Steering> steering_;
  std::shared_ptr<const Model> model_;
  const Model* shown_model_;
  const DualEncoderModel* dual_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  GenerationOptions generation_;
  tasks::FileProcessor processor_;
  std::shared_ptr<const Files> files_;
  std::vector<AttentionKind> kinds_;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> heads_;
  std::int64_t sample_frames_ = 0;  // of the encoder, for the input that showed the heads
  ValueMaps value_maps_;
  mutable std::unordered_map<std::int64_t, std::string> shown_;  // tokens that were asked for
  mutable std::map<std::int64_t, ExploredText> file_texts_;      // the newest ones
  /// Greedy outputs, by their source (or the number of their file), the most tokens they may have, and the
  /// strengths of steering.
  using OutputKey = std::tuple<std::vector<std::int64_t>, std::int64_t, std::vector<double>>;
  mutable std::map<OutputKey, std::vector<std::int64_t>> outputs_;
};

/// Has listeners add vectors to the values of taps.
void steer(Taps& taps, const TensorMap& vectors);

}  // namespace heed::explore
