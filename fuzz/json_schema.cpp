// JSON Schemas as grammars, and a text that is matched with them; then the tokens that a search may choose.
#include <span>
#include <vector>

#include "heed/grammar/grammar.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  static const std::vector<std::string> bytes = {
      "",      "{", "}",  "[",     "]",    "\"",   ":",    ",",   " ",    "\n",   "a",
      "\"a\"", "0", "12", "-1.5e", "true", "null", "\": ", "\"}", "\xC3", "\xA9", "\\u00"};
  static const heed::TokenVocabulary vocabulary(bytes);
  constexpr std::string_view kMark = "\n%%%%\n";
  std::string_view schema = heed::fuzz::text_of(data, size), text = "{\"a\": [1, \"b\"]}";
  if (const std::size_t end = schema.find(kMark); end != schema.npos) {
    text = schema.substr(end + kMark.size());
    schema = schema.substr(0, end);
  }
  heed::fuzz::check(folder, [&] {
    const auto grammar = heed::Grammar::json_schema(schema, (folder.path() / "schema.json").string());
    heed::GrammarMatcher(grammar).accept(text);
    const auto process = heed::constrain_tokens(grammar, vocabulary, {0}, {0});
    heed::GrammarMatcher matcher(grammar);
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < 40; ++i) {
      std::vector<float> scores(bytes.size(), 1.0f);
      process(0, ids, scores);
      if ((scores[0] > 0) != matcher.may_end()) ::abort();
      std::size_t chosen = size > 0 ? data[i % size] % bytes.size() : 0;
      for (std::size_t tries = 0; chosen == 0 || scores[chosen] < 0; ++tries) {
        if (tries > bytes.size()) return;
        chosen = (chosen + 1) % bytes.size();
      }
      if (!matcher.accept(bytes[chosen])) ::abort();
      ids.push_back(static_cast<std::int64_t>(chosen));
    }
  });
  return 0;
}
