// UnigramPath: finds the segmentation of a text with the highest sum of scores (Kudo, "Subword
// Regularization", ACL 2018); of equal sums, the one found first. `Score` is the type of the sums, which
// decides what counts as equal: f64 in the tokenizers library, f32 in SentencePiece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/utf8.h"
#include "text/algorithms/token_table.h"

namespace heed {

template <class Score>
class UnigramPath {
 public:
  static constexpr std::uint32_t kNowhere = 0xFFFFFFFF;
  /// The best path to a position: its score, where its last token begins, and that token's id.
  struct Node {
    Score score;
    std::uint32_t begin;
    std::int32_t id;
  };

  /// Considers every token of the trie at every position, with the score `score_of(id, bytes)`, and the
  /// unknown token wherever no token matches exactly one character. If `unknown_id` is negative, returns
  /// false at a character that only an unknown token would match.
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

  /// Returns the node of the path's token that ends at `end`. Walk the path from the end of the text
  /// backwards.
  const Node& operator[](std::size_t end) const { return best_[end]; }

 private:
  void offer(std::size_t at, std::size_t end, std::int32_t id, Score score) {
    Node& node = best_[end];
    if (node.begin == kNowhere || score > node.score) node = {score, static_cast<std::uint32_t>(at), id};
  }

  std::vector<Node> best_;
};

}  // namespace heed
