// heed tokenize: text to token ids and back, one JSON object per text.
#include <fmt/core.h>

#include <filesystem>
#include <optional>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "heed/io/json.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {
namespace {

struct TokenizeArguments {
  std::vector<std::string> texts;
  std::string model = kDefaultTranslator;
  std::vector<std::string> decode;
  std::optional<std::string> pair;
  bool target = false;
  bool no_special_tokens = false;
  bool skip_special_tokens = false;
};

void print(const Encoding& encoding) {
  JsonWriter json;
  json.begin_object()
      .field("ids", encoding.ids)
      .field("tokens", encoding.tokens)
      .key("offsets")
      .begin_array();
  for (const auto& offset : encoding.offsets)
    json.begin_array().value(offset.first).value(offset.second).end_array();
  fmt::print("{}\n", json.end_array().end_object().text());
}

/// A model's directory or name, or the file of a tokenizer.
std::unique_ptr<Tokenizer> load(const std::string& model) {
  std::error_code error;
  return load_tokenizer(std::filesystem::is_regular_file(model, error) ? std::filesystem::path(model)
                                                                       : locate_model(model));
}

/// What the tokenizer makes of a text, cut and filled where its file says so.
Encoding encode(const Tokenizer& tokenizer, const std::string& text, const TokenizeArguments& arguments) {
  const bool special = !arguments.no_special_tokens;
  if (arguments.target) return tokenizer.encode_target(text, special);
  const auto pair = arguments.pair ? std::optional<std::string_view>(*arguments.pair) : std::nullopt;
  const auto truncation = tokenizer.truncation();
  Encoding encoding = truncation ? tokenizer.encode_truncated(text, pair, *truncation, special)
                      : pair     ? tokenizer.encode_pair(text, *pair, special)
                                 : tokenizer.encode(text, special);
  if (const auto padding = tokenizer.padding()) pad(encoding, *padding, encoding.size());
  return encoding;
}

void decode(const Tokenizer& tokenizer, const TokenizeArguments& arguments, bool json) {
  std::vector<std::vector<std::int64_t>> lists;
  for (const std::string& list : arguments.decode)
    lists.push_back(token_ids(list, "--decode", tokenizer.vocab_size()));
  for (const std::vector<std::int64_t>& ids : lists) {
    const std::string text = tokenizer.decode(ids, arguments.skip_special_tokens);
    fmt::print("{}\n", json ? JsonWriter().value(text).text() : text);
  }
}

void run(const TokenizeArguments& arguments, const Globals& globals) {
  if (!arguments.decode.empty() && !arguments.texts.empty())
    throw UsageError("tokenize: expected text or --decode, got both");
  if (arguments.pair && (arguments.target || !arguments.decode.empty()))
    throw UsageError(
        "tokenize: expected --pair with texts of the source side, got it with --target or --decode");
  const auto tokenizer = load(arguments.model);
  if (!arguments.decode.empty()) return decode(*tokenizer, arguments, globals.json);
  for (const std::string& text : read_texts(arguments.texts, globals.quiet)) {
    print(encode(*tokenizer, text, arguments));
  }
}

}  // namespace

void add_tokenize(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens of a text, or the text of tokens");
  auto a = std::make_shared<TokenizeArguments>();
  command->add_option("text", a->texts, "Texts; without any, the lines of stdin");
  command->add_option("--model,-m", a->model, "Model directory or name, or a tokenizer's file")
      ->capture_default_str();
  command->add_option("--pair", a->pair, "A second text, put behind each as the model expects it");
  command->add_option("--decode", a->decode, "Ids to turn into text, e.g. 5,6,0 (repeatable)")
      ->allow_extra_args(false);
  command->add_flag("--target", a->target, "Tokenize for the target side");
  command->add_flag("--no-special-tokens", a->no_special_tokens, "Leave out what the tokenizer adds");
  command->add_flag("--skip-special-tokens", a->skip_special_tokens,
                    "With --decode: leave special tokens out");
  command->footer(
      "Examples:\n"
      "  heed tokenize \"The cat sat on the mat.\"\n"
      "  heed tokenize --model bert-base-uncased \"Who wrote it?\" --pair \"She did.\"\n"
      "  heed tokenize --model path/to/tokenizer.json <lines.txt\n"
      "  heed tokenize --decode 52,7,0 --skip-special-tokens");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
