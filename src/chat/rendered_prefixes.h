// The beginnings of a conversation, rendered in one run of its template.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "chat/renderer.h"

namespace heed::chat {

/// Texts of the first messages of a conversation, each as if there were no others. They share the text of
/// what a loop over the messages writes.
struct RenderedPrefixes {
  struct Prefix {
    std::size_t messages = 0;
    std::size_t shared_bytes = 0;  ///< how much of `shared` the text begins with
    MarkedText rest = {};
  };
  MarkedText shared = {};
  std::vector<Prefix> prefixes = {};  ///< ascending

  /// The text of so many messages; nullopt if it has to be rendered on its own.
  std::optional<RenderedChat> find(std::size_t messages) const;
};

/// Renders the first `counts[i]` (ascending, from 1 to as many as there are) of the variable `messages`. The
/// template runs once over a list that grows by a message with each iteration of the first loop over it.
/// Before an iteration that begins with a wanted number of messages, the list is closed, the iteration and
/// what follows the loop run, and all they changed is taken back. So each text is what rendering these
/// messages alone gives, and the steps of all are proportional to the messages. Left out are texts that
/// depend, before their last message, on how many there will be (`messages | length`, `messages[-1]`,
/// `loop.revindex`, another loop over the messages), and those of templates that fail or change objects other
/// than namespaces.
RenderedPrefixes render_prefixes(const ParsedTemplate& parsed, const Json& variables, const Json& constants,
                                 const RenderOptions& options, const std::vector<std::size_t>& counts);

/// The messages while they grow, and slices of them.
class GrowingMessages {
 public:
  GrowingMessages(const Value& all, std::vector<std::size_t> counts, Budget& budget);
  const Value& list() const { return list_; }
  std::size_t known() const { return known_; }
  /// The elements of a list that grows from `begin` on, which grow as well.
  Value from(const Value& list, std::size_t begin);
  /// Makes element `index` of the list known. Returns false if there is none.
  bool grow_to(const Value& list, std::size_t index);
  /// Whether the text that is wanted next ends with element `index` of the list. If so, goes on to the one
  /// after.
  bool ends_at(const Value& list, std::size_t index);
  bool wants_more() const { return next_ < counts_.size(); }
  /// Whether elements may follow.
  void set_open(bool open);

 private:
  Value add(std::size_t first);

  const Values all_;
  const std::vector<std::size_t> counts_;
  std::size_t next_ = 0, known_;
  Budget& budget_;
  std::vector<std::shared_ptr<SequenceValue>> lists_ = {};
  Value list_;
};

}  // namespace heed::chat
