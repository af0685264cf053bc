// UnigramPath: the tokens of a text whose scores have the highest sum (Kudo, "Subword Regularization", ACL
// 2018), of equal sums the one found first. `Score` is the type sums are kept in, on which equality hangs:
// f64 in the tokenizers library, f32 in SentencePiece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/token_table.h"
#include "text/utf8.h"

namespace heed {

template <class Score>
class UnigramPath {
 public:
  static constexpr std::uint32_t kNowhere = 0xFFFFFFFF;
  /// The best way to a place: its score, where its last token begins, and which that is.
  struct Node {
    Score score;
    std::uint32_t begin;
    std::int32_t id;
  };

  /// Offers every token of the trie wherever it begins, with the score that `score_of(id, bytes)` gives it;
  /// and where no token is just one character, the unknown one. Returns false at a character that only an
  /// unknown token fits, when `unknown_id` is below 0.
  template <class ScoreOf>
  bool find(std::string_view text, const Trie& trie, ScoreOf&& score_of, std::int32_t unknown_id,
            Score unknown_score) {
    best_.assign(text.size() + 1, {0, kNowhere, 0});
    for (std::size_t at = 0, next = 0; at < text.size(); at = next) {
      next = std::min(text.size(), at + utf8_length(text[at]));
      const Score here = best_[at].score;
      bool single = false;
      std::uint32_t node = trie.root();
      for (std::size_t end = at; end < text.size();) {
        node = trie.next(node, text[end++]);
        if (node == Trie::kNone) break;
        const std::uint32_t id = trie.value(node);
        if (id == Trie::kNone) continue;
        offer(at, end, static_cast<std::int32_t>(id), score_of(id, end - at) + here);
        single = single || end == next;
      }
      if (single) continue;
      if (unknown_id < 0) return false;
      offer(at, next, unknown_id, unknown_score + here);
    }
    return true;
  }

  /// The node of the token that ends at a place of the path, from the text's end backwards.
  const Node& operator[](std::size_t end) const { return best_[end]; }

 private:
  void offer(std::size_t at, std::size_t end, std::int32_t id, Score score) {
    Node& node = best_[end];
    if (node.begin == kNowhere || score > node.score) node = {score, static_cast<std::uint32_t>(at), id};
  }

  std::vector<Node> best_;
};

}  // namespace heed
