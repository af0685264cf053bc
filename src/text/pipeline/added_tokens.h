// Added tokens: the tokens of a tokenizer file that are matched whole in a text before it is pre-tokenized.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json_field.h"
#include "heed/threads.h"
#include "text/algorithms/token_table.h"
#include "text/pipeline/normalized_text.h"
#include "text/pipeline/stages.h"

namespace heed {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< matches only outside of words
  bool lstrip = false;       ///< includes the white space before it
  bool rstrip = false;       ///< includes the white space after it
  bool normalized = true;    ///< matched in the normalized text instead of the original
  bool special = false;
};

/// Makes a token that files give by its content alone. A special token is matched in the original text.
AddedToken plain_token(std::string_view content, bool special);

/// A part of a text: an added token, or the text between two of them (id -1).
struct AddedPart {
  std::int32_t id;
  std::size_t begin;
  std::size_t end;
};

/// Finds tokens in a text in time that is linear in its length (Aho & Corasick, "Efficient string matching",
/// 1975).
class TokenMatcher {
 public:
  TokenMatcher() = default;
  /// The tokens' contents, which must differ, and their ids. Empty ones are ignored.
  explicit TokenMatcher(std::vector<std::pair<std::string, std::int32_t>> tokens);
  /// Returns the leftmost matches without overlaps; of those that begin at the same position, the longest.
  /// A match begin .. end - 1 that is not `allowed` is passed over.
  std::vector<AddedPart> find(std::string_view text,
                              FunctionRef<bool(std::size_t begin, std::size_t end)> allowed) const;

 private:
  struct Match {
    std::int32_t id = -1;
    std::uint32_t bytes = 0;
  };
  /// Returns the node of the longest suffix in the trie of a node's string and `byte`.
  std::uint32_t step(std::uint32_t node, char byte) const;

  /// Of the reversed tokens: a text is read from its end, so that where a token begins, all that begin there
  /// are known.
  Trie trie_;
  std::vector<std::uint32_t> suffixes_;  // per node: that of its longest proper suffix in the trie
  std::vector<Match> longest_;           // per node: the longest token that is a suffix of it
};

class AddedTokens {
 public:
  /// Adds a token, or changes the existing one with the same content. A token of the vocabulary keeps its id;
  /// others get the next free one, as in the tokenizers library. `token.id` is ignored.
  void add(AddedToken token, const TokenTable& vocabulary);
  /// Must be called after the last add(). `normalizer` may be null; `where` names its file.
  void prepare(const Normalizer* normalizer, const std::string& where);

  /// Splits a text at the tokens that are matched in the original or, if `normalized`, in the normalized
  /// text, but for those that are not `allowed`.
  std::vector<AddedPart> split(std::string_view text, bool normalized,
                               FunctionRef<bool(std::size_t begin, std::size_t end)> allowed) const;

  /// Returns true if no added token can match or strip across a word end (text/word_ends.h). Valid after
  /// prepare().
  bool preserve_word_ends() const { return keep_word_ends_; }

  const AddedToken* find(std::int64_t id) const;
  const AddedToken* find(std::string_view content) const;
  /// All added tokens by id.
  const std::map<std::int32_t, AddedToken>& tokens() const { return tokens_; }

 private:
  std::map<std::int32_t, AddedToken> tokens_;
  std::map<std::string, std::int32_t, std::less<>> ids_;
  TokenMatcher original_, normalized_;
  bool keep_word_ends_ = true;
};

/// Parses an element of `added_tokens`, or a value of `added_tokens_decoder`, whose key is the id.
AddedToken parse_added_token(const JsonField& field, std::int32_t id);

}  // namespace heed
