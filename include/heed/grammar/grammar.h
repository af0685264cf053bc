// Grammars: sets of texts, from a JSON Schema, a regular expression or a list, and generation that is
// constrained to them. Matching is incremental, so that the constraint applies token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

class Tokenizer;

namespace grammar {
class LazyDfa;
class Network;
}  // namespace grammar

/// How a model writes calls of functions. The default is that of Hermes and Qwen.
struct ToolCallMarks {
  enum class Syntax : std::uint8_t {
    object,  ///< `{"name": NAME, ARGUMENTS_KEY: ARGUMENTS}`
    named,   ///< Mistral, DeepSeek: NAME, NAME_END, ARGUMENTS; if there is ID_BEGIN, it and an id of nine
             ///< letters and digits stand after the name
    tags,    ///< Qwen3-Coder: `<function=NAME>`, `<parameter=KEY>`, VALUE, ..., each on a line of its own,
             ///< with texts as they are
    python,  ///< `NAME(KEY=VALUE, ...)`
  };
  std::string begin = "<tool_call>\n";  ///< of each call
  std::string end = "\n</tool_call>";
  std::string arguments_key = "arguments";  ///< Llama 3: parameters
  Syntax syntax = Syntax::object;
  std::string list_begin = {}, list_end = {};  ///< of all calls
  std::string separator = "\n";                ///< between two calls
  bool several = false;                        ///< one call or more, rather than one
  std::string name_end = {};                   ///< before the arguments
  std::string id_begin = {};
  /// Ids of special tokens by their texts. Where a mark has one of these texts, that token stands, and no
  /// text is accepted in its place.
  std::vector<std::pair<std::string, std::int64_t>> tokens = {};
};

/// What becomes of keywords of a JSON Schema that constrain a value, but that a grammar cannot follow.
enum class UnsupportedKeywords : std::uint8_t { refused, ignored };

/// A set of texts in UTF-8. Cheap to copy. Threads: several may use one object at once.
///
/// JSON follows RFC 8259, with limits. White space (at the start, after a colon, and between brackets,
/// members and elements) is one space, or a line end with up to 32 spaces and tabs. Numbers have at most 100
/// digits before the point, 100 after it and 2 in the exponent, so that none overflows a double.
class Grammar {
 public:
  /// The values that a JSON Schema of at most 256 KiB matches, as far as these rules allow
  /// (docs/structured.md): an object has its properties in the order of the schema, then those that
  /// `required` names alone, then others. Others are allowed if additionalProperties says so or if there are
  /// no properties. Without `type`, the other keywords decide which types match. A string that is limited
  /// (enum, const, pattern, format, names of properties) has its characters in the shortest form. A number
  /// that is limited has no exponent, an integer no point.
  ///
  /// Keywords and formats that are not known are annotations; notes() tells which. Throws Error `WHERE:
  /// #/properties/a/KEY: expected X, got Y` if the schema has a constraint that is not supported, unless
  /// these are ignored, if a keyword is wrong, if the schema is too large, or if it matches no value.
  static Grammar json_schema(std::string_view schema, std::string where = "response_format",
                             UnsupportedKeywords unsupported = UnsupportedKeywords::refused);
  /// Any JSON object.
  static Grammar json_object(std::string where = "response_format");
  /// The texts that match a regular expression as a whole. Throws Error if it contains anything but
  /// characters, `.`, classes, `\d \w \s`, groups, alternatives, quantifiers, and ^ and $ at its ends.
  static Grammar regex(std::string_view pattern, std::string where = "guided_regex");
  /// One of the texts. Throws Error if there is none, or if one is not UTF-8 or is empty.
  static Grammar choices(std::span<const std::string> texts, std::string where = "guided_choice");
  /// One call of one of the functions of `tools`, OpenAI's JSON array of `{"type": "function", "function":
  /// {"name": ..., "parameters": SCHEMA}}`, or several. A function whose parameters say nothing gets `{}`. If
  /// `only` is not empty, calls are of that function. Throws Error if there is no such function, and as
  /// json_schema().
  static Grammar tool_calls(std::string_view tools, const ToolCallMarks& marks = {},
                            std::string_view only = {}, std::string where = "tools",
                            UnsupportedKeywords unsupported = UnsupportedKeywords::refused);

  /// The prefix of its error messages.
  const std::string& where() const { return where_; }
  /// What a JSON Schema says that is not enforced: `WHERE: #/properties/a/format: "path" is not enforced`.
  const std::vector<std::string>& notes() const { return notes_; }
  const std::shared_ptr<const grammar::Network>& network() const { return network_; }

 private:
  Grammar(std::shared_ptr<const grammar::Network> network, std::string where,
          std::vector<std::string> notes = {});

  std::shared_ptr<const grammar::Network> network_;
  std::string where_;
  std::vector<std::string> notes_;
};

/// Reads a text piece by piece. Copies are cheap and independent. Threads: a matcher and its copies, one at a
/// time.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(const Grammar& grammar);
  /// Reads more bytes, which may end within a character. Returns false, from then on, if no text of the
  /// grammar begins with the bytes so far. Throws Error if the automaton has more than 20,000 configurations
  /// at once, or reaches more than 5,000,000 for a byte.
  bool accept(std::string_view bytes);
  /// The same for a special token. No text is accepted in its place.
  bool accept_token(std::int64_t id);
  /// Whether the text so far is a text of the grammar.
  bool may_end() const;
  /// Whether it is, and no longer text of the grammar begins with it.
  bool must_end() const;

 private:
  std::shared_ptr<grammar::LazyDfa> dfa_;
  std::string where_;
  std::uint32_t state_;
};

// Constrained decoding: tokens after which no text of the grammar can follow get the score -infinity.

/// The texts of a tokenizer's tokens as a prefix tree, built once per model: 49,152 tokens take 50 ms. Cheap
/// to copy. Threads: several may use one object at once.
class TokenVocabulary {
 public:
  /// Special tokens are left out: they are never part of a text, and allowed only where a grammar has
  /// their ids.
  explicit TokenVocabulary(const Tokenizer& tokenizer);
  /// The bytes of each id; tokens without bytes are left out.
  explicit TokenVocabulary(const std::vector<std::string>& bytes);

  struct Tree;
  const std::shared_ptr<const Tree>& tree() const { return tree_; }

 private:
  std::shared_ptr<const Tree> tree_;
};

/// Returns a function for SearchHooks::process (heed/generate/search.h). It sets the score of a token to
/// -infinity unless the text after the prompt, with this token, begins a text of the grammar. `end_ids` are
/// allowed where the text is complete. `prompt_lengths` has the number of prompt tokens of each row, or one
/// number for all rows. Copies share a cache of prefixes, and any thread may call them.
///
/// So a search ends with a text of the grammar, or, at the maximum length, with the beginning of one. If the
/// text is complete, cannot continue and no end token has a score, all scores become -infinity, which ends
/// the search. The function throws Error if the text is incomplete and no token with a score continues it,
/// because other options excluded these tokens or the vocabulary has none.
std::function<void(std::size_t row, std::span<const std::int64_t> ids, std::span<float> scores)>
constrain_tokens(const Grammar& grammar, const TokenVocabulary& vocabulary,
                 std::vector<std::size_t> prompt_lengths, std::vector<std::int64_t> end_ids);

}  // namespace heed
