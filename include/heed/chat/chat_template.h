// Chat templates: the Jinja templates that turn the messages of a conversation into text for models of
// Hugging Face. They are rendered as transformers renders them: as jinja2 3.1's immutable sandbox with
// trim_blocks, lstrip_blocks, `break` and `continue`, `{% generation %}`, and transformers' own functions.
// Templates are not trusted: a template reaches only its variables, and its time and memory are limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/text/unicode.h"

namespace HEED_API heed {

namespace chat {
struct ParsedTemplate;
}

/// The limits of one rendering. A template that needs more ends with an Error.
struct ChatLimits {
  /// Template nodes that are evaluated, list elements that are visited, and 64-byte pieces of text that are
  /// created or searched.
  std::int64_t steps = 10'000'000;
  std::int64_t bytes = std::int64_t{256} << 20;  ///< of all values that exist at a time, the result included
};

struct RenderOptions {
  /// A JSON object of variables whose text counts as part of the template: the names of special tokens, such
  /// as `{"bos_token": "<s>", "eos_token": "</s>"}`.
  std::string constants = "{}";
  /// The time that `strftime_now` shows, as local time, in seconds since 1970; nullopt: the time of the call.
  std::optional<std::int64_t> now;
  ChatLimits limits;
};

/// A conversation as text.
struct RenderedChat {
  std::string text;
  /// The spans that come from variables, in ascending order. No special token is read there, or a user could
  /// write one (Tokenizer::encode_chat). Each character that derives from the text of a variable is included;
  /// digits of numbers are not. The roles system, developer, user, assistant, tool and function are not
  /// included either, because some templates compose a special token with them.
  std::vector<TextSpan> data;
  /// The spans between `{% generation %}` and `{% endgeneration %}`, in ascending order: the text that is
  /// learned in training on answers only.
  std::vector<TextSpan> generated;
};

/// A template that has been parsed. Threads: several may use one object at once.
class ChatTemplate {
 public:
  /// Parses a template of at most 1 MiB of UTF-8. `name` begins messages. Throws Error `NAME: line N:
  /// expected X, got Y` if it is not one, or uses what needs other templates (include, import, extends).
  static ChatTemplate parse(std::string_view text, std::string name);

  /// Renders with `variables`, a JSON object: `messages`, `add_generation_prompt`, `tools` and whatever else
  /// the template reads. Throws Error, which names template and line, where the template or a filter fails,
  /// where it calls `raise_exception`, and at the limits.
  RenderedChat render(std::string_view variables, const RenderOptions& options = {}) const;
  /// For heed's own modules: src/chat/rendering.h.
  const chat::ParsedTemplate& parsed() const { return *parsed_; }

 private:
  explicit ChatTemplate(std::shared_ptr<const chat::ParsedTemplate> parsed);
  std::shared_ptr<const chat::ParsedTemplate> parsed_;
};

}  // namespace heed
