// heed tokenize: converts text to token ids and back, one JSON object per text.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/terminal/terminal.h"
#include "heed/chat/model_chat.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "heed/open/subject.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {
namespace {

struct TokenizeArguments {
  std::vector<std::string> texts;
  std::string model = kDefaultTranslator;
  std::vector<std::string> decode;
  std::optional<std::string> pair;
  ChatArguments chat;
  bool target = false;
  bool no_special_tokens = false;
  bool skip_special_tokens = false;
  std::filesystem::path output;
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
  print_stdout("{}\n", json.end_array().end_object().text());
}

/// Returns the encoding of a text, truncated if the tokenizer's file requires it.
Encoding encode(const Tokenizer& tokenizer, const std::string& text, const TokenizeArguments& arguments) {
  const bool special = !arguments.no_special_tokens;
  if (arguments.target) return tokenizer.encode_target(text, special);
  const auto pair = arguments.pair ? std::optional<std::string_view>(*arguments.pair) : std::nullopt;
  const auto truncation = tokenizer.truncation();
  Encoding encoding = truncation ? tokenizer.encode_truncated(text, pair, *truncation, special)
                      : pair     ? tokenizer.encode_pair(text, *pair, special)
                                 : tokenizer.encode(text, special);
  return encoding;
}

/// Returns true if the model has token_type_ids: according to its config.json, or, without one, if any type
/// is not 0.
bool takes_types(const LoadedModel& model, const std::vector<Encoding>& encodings) {
  if (model.files().has("config.json"))
    return Config::load(model.files(), "config.json").integer("type_vocab_size", 0) > 1;
  for (const Encoding& encoding : encodings) {
    if (std::any_of(encoding.type_ids.begin(), encoding.type_ids.end(), [](auto id) { return id != 0; }))
      return true;
  }
  return false;
}

void write(const LoadedModel& model, const std::vector<Encoding>& encodings,
           const TokenizeArguments& arguments) {
  if (encodings.empty()) throw Error("tokenize: missing texts (give them on stdin or as arguments)");
  const Tokenizer& tokenizer = model.tokenizer();
  const auto padding = tokenizer.padding();
  const std::int64_t pad_id = padding ? padding->pad_id : tokenizer.pad_id().value_or(0);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : side_by_side(encodings, pad_id, takes_types(model, encodings)))
    tensors.push_back({name, tensor});
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  add_tokens(metadata, "tokens", encodings);
  save_safetensors(arguments.output, tensors, metadata);
}

/// Returns what the model reads of the conversations: prompts, without further tokens around them.
std::vector<Encoding> encode_chats(const LoadedModel& model, const std::filesystem::path& file) {
  const ModelChat& chat = model.chat_templates();
  std::vector<Encoding> encodings;
  for (const GivenChat& given : read_chats(file, "--messages"))
    encodings.push_back(chat.prompt(given.json, given.where).encoding);
  return encodings;
}

void decode(const Tokenizer& tokenizer, const TokenizeArguments& arguments, bool json) {
  std::vector<std::vector<std::int64_t>> lists;
  for (const std::string& list : arguments.decode) {
    lists.push_back(token_ids(list, "--decode", std::int64_t{1} << 31));
    // A model may have more rows than its tokenizer has tokens: no text, as in transformers.
    std::erase_if(lists.back(), [&](std::int64_t id) { return id >= tokenizer.vocab_size(); });
  }
  for (const std::vector<std::int64_t>& ids : lists) {
    const std::string text = tokenizer.decode(ids, arguments.skip_special_tokens);
    print_stdout("{}\n", json ? JsonWriter().value(text).text() : text);
  }
}

void run(const TokenizeArguments& arguments, const Globals& globals) {
  if (!arguments.decode.empty() && !arguments.texts.empty())
    throw UsageError("tokenize: expected text or --decode, got both");
  if (!arguments.chat.messages.empty() &&
      (!arguments.texts.empty() || !arguments.decode.empty() || arguments.pair || arguments.target))
    throw UsageError("--messages: cannot be combined with text, --pair, --as-target or --decode");
  if (arguments.pair && (arguments.target || !arguments.decode.empty()))
    throw UsageError("--pair: cannot be combined with --as-target or --decode");
  if (!arguments.output.empty() && !arguments.decode.empty())
    throw UsageError("--output: cannot be combined with --decode (its text goes to stdout)");
  require_name(arguments.model);
  const LoadedModel model = open_tokenizer(arguments.model);
  const Tokenizer& tokenizer = model.tokenizer();
  if (arguments.skip_special_tokens && arguments.decode.empty() && !globals.quiet)
    warn("--skip-special-tokens has no effect without --decode");
  if (!arguments.decode.empty()) return decode(tokenizer, arguments, globals.json);
  std::vector<Encoding> encodings;
  const auto take = [&](Encoding encoding) {
    if (!arguments.output.empty()) return encodings.push_back(std::move(encoding));
    if (const auto padding = tokenizer.padding()) pad(encoding, *padding, encoding.size());
    print(encoding);
  };
  if (!arguments.chat.messages.empty()) {
    for (Encoding& encoding : encode_chats(model, arguments.chat.messages)) take(std::move(encoding));
  } else {
    for (const std::string& text : read_texts(text_arguments(arguments.texts, globals.quiet), globals.quiet))
      take(encode(tokenizer, text, arguments));
  }
  if (arguments.output.empty()) return;
  write(model, encodings, arguments);
  if (!globals.quiet) print_stderr("wrote " + arguments.output.string());
}

}  // namespace

void add_tokenize(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("tokenize", "Turn texts into token ids, or token ids into texts");
  auto a = std::make_shared<TokenizeArguments>();
  command->add_option("text", a->texts, "Texts; without any, the lines of stdin");
  OptionGroup input(*command, "Input"), model(*command, "Model"), output(*command, "Output");
  input.value("--pair", a->pair, "TEXT", "Second text of a pair with each text, joined as the model expects");
  a->chat.add_messages_to(*command);
  input.value("--decode", a->decode, "IDS", "Token ids to turn into text, e.g. 5,6,0");
  model
      .value("--model,-m", a->model, "MODEL",
             "Model directory, GGUF file, name of a model, or a tokenizer's file")
      ->capture_default_str();
  model.flag("--as-target", a->target, "Tokenize as the target language of a translation model");
  output.value("--output,-o", a->output, "FILE",
               "Write input_ids and attention_mask to this .safetensors file, for heed forward --input");
  output.flag("--no-special-tokens", a->no_special_tokens, "Add no special tokens such as [CLS]");
  output.flag("--skip-special-tokens", a->skip_special_tokens,
              "With --decode: leave special tokens out of the text");
  command->footer(
      "Examples:\n"
      "  heed tokenize \"The cat sat on the mat.\"\n"
      "  heed tokenize --model bert-base-uncased \"Who wrote it?\" --pair \"She did.\"\n"
      "  heed tokenize --model path/to/tokenizer.json <lines.txt\n"
      "  heed tokenize --model bert-base-uncased --output in.safetensors \"Tea is hot.\" \"Ice is cold.\"\n"
      "  heed tokenize --model SmolLM2-135M-Instruct --messages chat.json\n"
      "  heed tokenize --decode 52,7,0 --skip-special-tokens");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
