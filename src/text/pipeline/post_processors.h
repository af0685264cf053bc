// Post-processors: add special tokens around one text or two, and trim offsets, as a tokenizer file
// describes.
#pragma once

#include <memory>
#include <optional>

#include "core/json_field.h"
#include "heed/text/tokenizer.h"

namespace heed {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// Changes the encodings of one text or two, and adds special tokens to them if `add_special_tokens`.
  virtual void apply(std::vector<Encoding>& texts, bool add_special_tokens) const = 0;
  /// How often a text may stand in the result.
  virtual std::int64_t repeats() const { return 1; }
};

/// Parses a `post_processor` object. Throws Error naming file and field if the kind is unknown or its
/// settings are invalid. `depth` counts nested sequences.
std::unique_ptr<const PostProcessor> parse_post_processor(const JsonField& field, int depth = 0);

/// Appends `second` to `first` without copying the longer of the two: adding one token before a text of a
/// million tokens does not copy the text.
void join(Encoding& first, Encoding second);

/// Applies a post-processor, which may be null, to one text or two, and joins the result.
Encoding process(const PostProcessor* processor, Encoding first, std::optional<Encoding> second,
                 bool add_special_tokens);

/// A TemplateProcessing that adds one token before and one after each text.
struct EndToken {
  std::int64_t id;
  std::string token;
};
std::unique_ptr<const PostProcessor> ends_processor(std::optional<EndToken> first,
                                                    std::optional<EndToken> last);
/// A TemplateProcessing that adds tokens of type 0 before the first and after the last text.
std::unique_ptr<const PostProcessor> frame_processor(const std::vector<EndToken>& before,
                                                     const std::vector<EndToken>& after,
                                                     std::int64_t type_of_second = 0);

}  // namespace heed
