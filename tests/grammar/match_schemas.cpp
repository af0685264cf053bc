// The side of heed in scripts/schema-suite.py: for each line of the input, {"schema": TEXT, "lax": BOOLEAN,
// "texts": [...]}, a line {"error": TEXT} or {"notes": [...], "matches": [a boolean for each text]}.
#include <iostream>
#include <string>

#include "core/json.h"
#include "grammar/matching.h"
#include "heed/error.h"

namespace heed {
namespace {

Json answer(const Json& asked) {
  try {
    const Grammar grammar = Grammar::json_schema(
        asked["schema"].get<std::string>(), "schema",
        asked["lax"] == Json(true) ? UnsupportedKeywords::ignored : UnsupportedKeywords::refused);
    Json result = {{"notes", grammar.notes()}, {"matches", Json::array()}};
    for (const Json& text : asked["texts"])
      result["matches"].push_back(matches(grammar, text.get<std::string>()));
    return result;
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace
}  // namespace heed

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << heed::json_text(heed::answer(heed::parse_json(line, "standard input"))) << '\n';
}
