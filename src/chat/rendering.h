// Rendering of a parsed template with variables that are JSON already.
#pragma once

#include <string>
#include <vector>

#include "chat/syntax.h"
#include "core/json.h"
#include "heed/chat/chat_template.h"

namespace heed::chat {

struct ParsedTemplate {
  std::string name;
  std::vector<Statement> body;
};

/// ChatTemplate::render(), with `constants` in place of those of the options.
RenderedChat render(const ParsedTemplate& parsed, const Json& variables, const Json& constants,
                    const RenderOptions& options);

}  // namespace heed::chat
