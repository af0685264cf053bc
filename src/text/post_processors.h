// Post-processors: what a tokenizer file adds around the tokens of one text or two, and how it trims offsets.
#pragma once

#include <memory>
#include <optional>

#include "heed/text/tokenizer.h"
#include "text/json_field.h"

namespace heed {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// Changes the encodings of one text or two, and adds special tokens to their ends where it is to.
  virtual void apply(std::vector<Encoding>& texts, bool add_special_tokens) const = 0;
};

/// The post-processor that a `post_processor` object describes. Throws Error naming file and field where the
/// kind is unknown or its settings are wrong. `depth` counts nested sequences.
std::unique_ptr<const PostProcessor> parse_post_processor(const JsonField& field, int depth = 0);

/// Encoding::append() that copies nothing of the longer one: a text of a million tokens is not copied for the
/// token before it.
void join(Encoding& first, Encoding second);

/// TemplateProcessing that puts a first and a last token around each text.
struct EndToken {
  std::int64_t id;
  std::string token;
};
std::unique_ptr<const PostProcessor> ends_processor(std::optional<EndToken> first,
                                                    std::optional<EndToken> last);

}  // namespace heed
