// Tokens as readers see them.
#include "inspect/token_input.h"

#include <gtest/gtest.h>

#include "heed/text/tokenizer.h"
#include "plot/labels.h"

namespace heed {
namespace {

using Tokens = std::vector<std::string>;

Tokens shown(const Tokens& tokens, const std::string& fixture) {
  const auto tokenizer = load_tokenizer(std::string(HEED_FIXTURES "/") + fixture);
  return inspect::shown_tokens(tokens, tokenizer.get());
}

TEST(ShownTokens, PartsOfCharactersAreTheirBytes) {
  const auto tokenizer = load_tokenizer(std::string(HEED_FIXTURES "/bart"));
  Tokens tokens;
  for (const std::int64_t id : tokenizer->encode("a ש", false).ids) tokens.push_back(tokenizer->token(id));
  EXPECT_EQ(shown(tokens, "bart"), (Tokens{"a", "·\\xd7", "\\xa9"}));
  // Of U+2026 and a space before it, the first two of three bytes; U+2026 whole, and the bytes of "é…" cut.
  EXPECT_EQ(shown({"Ġâ\u0122", "âĢ¦", "Ã©âĢ", "Ġthe"}, "bart"),
            (Tokens{"·\\xe2\\x80", "…", "é\\xe2\\x80", "·the"}));
  EXPECT_EQ(inspect::shown_tokens({"âĢ"}, nullptr), Tokens{"âĢ"});
}

TEST(ShownTokens, BytesOfSentencePieceAreWrittenAlike) {
  const Tokens tokens{"<0xE2>", "<0x41>", "<0xZ1>", "▁the"};
  EXPECT_EQ(shown(tokens, "moonshine-speech"), (Tokens{"\\xe2", "A", "<0xZ1>", "▁the"}));
}

TEST(ShownTokens, BytesAreHarmlessAndNoReplacementCharacters) {
  EXPECT_EQ(plot::visible("\xe2\x80"), "\\xe2\\x80");
  EXPECT_EQ(plot::escape_markup("a\xff<"), "a\\xff&lt;");
  EXPECT_EQ(plot::escape_bytes("é\xf0\x9f\x98"), "é\\xf0\\x9f\\x98");
  EXPECT_EQ(plot::escape_bytes("שלום 😀"), "שלום 😀");
}

}  // namespace
}  // namespace heed
