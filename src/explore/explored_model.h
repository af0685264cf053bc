// A model that is explored: its tokenizer, its heads, and texts as its input.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "explore/run_request.h"
#include "explore/value_maps.h"
#include "heed/generate/options.h"
#include "heed/inspect/record.h"
#include "heed/models/model.h"
#include "heed/text/tokenizer.h"
#include "inspect/token_input.h"

namespace heed::explore {

struct ExploredText {
  inspect::TokenInput input;
  std::vector<std::int64_t> ids;                        ///< of the (source) text
  std::optional<std::vector<std::int64_t>> target_ids;  ///< of an encoder-decoder's output
  std::vector<std::int64_t> read;                       ///< by the stack that predicts
  std::string title;
};

/// Threads: one at a time.
class ExploredModel {
 public:
  /// Runs the model once, on one token, to see its heads. Throws Error for a model that reads no text or has
  /// no attention.
  ExploredModel(std::string name, std::unique_ptr<Model> model, std::unique_ptr<Tokenizer> tokenizer,
                GenerationOptions generation);

  const std::string& name() const { return name_; }
  const Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// The text of ids, without special tokens.
  std::string decoded(const std::vector<std::int64_t>& ids) const;
  const std::vector<AttentionKind>& kinds() const { return kinds_; }
  /// The number of heads of each layer of a kind. Throws Error that begins with `where` if there is none.
  const std::vector<std::int64_t>& heads(const std::string& kind, const std::string& where = "kind") const;
  /// Empty where the norms of values are to be recorded.
  const ValueMaps& value_maps() const { return value_maps_; }
  /// `decoder`, `encoder` or `encoder-decoder`
  std::string architecture() const;

  /// Encodes a text or takes its ids. An encoder-decoder reads the target, or its own greedy output of at
  /// most `max_new_tokens`, without a final end token. Throws Error for what the model does not take, empty
  /// and too long texts, and ids outside the vocabulary; Canceled once `stop` is true.
  ExploredText text_of(const RequestedText& text, std::int64_t max_new_tokens,
                       const std::atomic<bool>& stop) const;

  /// The token for readers; the number where it has none.
  const std::string& token(std::int64_t id) const;

 private:
  void find_heads();
  std::vector<std::int64_t> greedy_output(const std::vector<std::int64_t>& source,
                                          std::int64_t max_new_tokens, const std::atomic<bool>& stop) const;
  ExploredText encoder_text(const RequestedText& text) const;
  ExploredText decoder_text(const RequestedText& text) const;
  ExploredText encoder_decoder_text(const EncoderDecoderModel& both, const RequestedText& text,
                                    std::int64_t max_new_tokens, const std::atomic<bool>& stop) const;
  void check_ids(const std::vector<std::int64_t>& ids, const char* where) const;
  /// Encoding of a text or its ids.
  Encoding encoding_of(const RequestedText& text) const;

  std::string name_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  GenerationOptions generation_;
  std::vector<AttentionKind> kinds_;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> heads_;
  ValueMaps value_maps_;
  mutable std::unordered_map<std::int64_t, std::string> shown_;  // tokens that were asked for
  /// Greedy outputs, by their source and the most tokens they may have.
  mutable std::map<std::pair<std::vector<std::int64_t>, std::int64_t>, std::vector<std::int64_t>> outputs_;
};

}  // namespace heed::explore
