// DecodingBatch: a decoding, and the searches that its rows belong to. This is the one loop that generates
// tokens: search() steps a batch until it is empty; a Generation steps several, whose searches come and go.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generate/strategies.h"
#include "heed/models/model.h"
#include "heed/nn/context.h"

namespace heed::generate {

class DecodingBatch {
 public:
  /// Records the attention taps of `capture` (SearchHooks::capture). The decoding must outlive the batch.
  DecodingBatch(Decoding& decoding, const Context& context, const std::vector<std::string>& capture = {});
  DecodingBatch(std::unique_ptr<Decoding> decoding, const Context& context,
                const std::vector<std::string>& capture = {});

  /// Adds a search whose prompt the next row of the decoding has, with `read` of its tokens, not all.
  void add(std::unique_ptr<Search> search, std::int64_t read);
  /// Feeds the rest of all prompts, and chooses the first tokens. Throws Error if prompts or options contain
  /// tokens without a score.
  void read();
  /// Feeds the last token of every sequence, and chooses the next.
  void step();
  /// Gives every sequence a row of its own, and frees the rows of those that ended.
  void arrange();
  /// Takes the rows and searches of another batch; both have read their prompts.
  void join(DecodingBatch& other);
  /// Returns the searches that are done, and forgets them. Until arrange() or step(), their rows are there.
  std::vector<std::unique_ptr<Search>> take_done();
  /// Returns a search that is not done, and forgets it; null if it is not here.
  std::unique_ptr<Search> take(std::uint64_t request);
  /// The tokens since the last call.
  std::vector<GeneratedToken> take_tokens() { return std::exchange(tokens_, {}); }

  bool empty() const { return members_.empty(); }
  std::vector<Search*> searches() const;
  const Decoding& decoding() const { return *decoding_; }
  const AttentionRecorder& recorder() const { return recorder_; }

 private:
  struct Member {
    std::unique_ptr<Search> search;
    std::int64_t read = 0;           // tokens of the prompt, before read()
    std::vector<std::int64_t> rows;  // that it has since the last arrange()
  };
  /// Has every search choose from its rows of the logits.
  void choose_tokens(const Tensor& logits);

  std::unique_ptr<Decoding> own_;
  Decoding* decoding_;
  AttentionRecorder recorder_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Search>> done_;
  std::vector<GeneratedToken> tokens_;
};

}  // namespace heed::generate
