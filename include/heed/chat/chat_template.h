// Chat templates: the Jinja templates with which models of Hugging Face turn the messages of a conversation
// into text, rendered as transformers renders them: what jinja2 3.1's immutable sandbox gives with
// trim_blocks, lstrip_blocks, `break` and `continue`, `{% generation %}`, and transformers' own functions.
// A template is read as hostile: it cannot reach anything but its variables, nor run or grow without end.
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

/// What a template may use up. Rendering ends with an Error where it would need more.
struct ChatLimits {
  /// Parts of the template that are run, elements of lists that are visited, and 64-byte pieces of text that
  /// are made or searched.
  std::int64_t steps = 10'000'000;
  std::int64_t bytes = std::int64_t{256} << 20;  ///< of all values that exist at a time, the result included
};

struct RenderOptions {
  /// A JSON object of variables whose text counts as the template's own: the names of special tokens, such as
  /// `{"bos_token": "<s>", "eos_token": "</s>"}`.
  std::string constants = "{}";
  /// What `strftime_now` shows, in seconds since 1970, as local time; nullopt: the time of the call.
  std::optional<std::int64_t> now;
  ChatLimits limits;
};

/// A conversation as text.
struct RenderedChat {
  std::string text;
  /// What came from the variables, in ascending order: no special token may be read there, or a user could
  /// write one (Tokenizer::encode_chat). Each character that derives from the text of a variable is included;
  /// digits of numbers are not. A message's role is not either if it is one of system, developer, user,
  /// assistant, tool and function, as some templates compose a special token with it.
  std::vector<TextSpan> data;
  /// What stood between `{% generation %}` and `{% endgeneration %}`, in ascending order: what a model that
  /// learns its answers alone learns.
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
