// A conversation with a model: its messages, and answers for which only what changed is read again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "heed/chat/model_chat.h"
#include "heed/generate/search.h"
#include "heed/models/model.h"
#include "heed/open/loaded_model.h"

namespace heed::cli {

/// An answer as tokens: `ids` begin with those of the prompt.
struct ChatAnswer {
  std::string text;
  std::vector<std::int64_t> ids;
  std::size_t prompt_length = 0;
  FinishReason finish_reason = FinishReason::stop;
  std::int64_t read = 0;  ///< tokens of the prompt that had to be read for it
};

/// Threads: one at a time.
class ChatSession {
 public:
  /// `model` must outlive this. `options` are those of generation. Throws Error for a model without a chat
  /// template.
  ChatSession(const LoadedModel& model, GenerationOptions options);

  /// Adds a message.
  void say(const std::string& role, const std::string& text);
  /// Answers the conversation and adds the answer to it. `on_text` receives its parts; once it returns false
  /// the answer ends there. If `stop` becomes true while the conversation is read, throws Canceled. Throws
  /// Error if the template refuses the conversation, and if no room is left for an answer. The conversation
  /// is then as it was.
  ChatAnswer answer(const std::function<bool(const std::string&)>& on_text, const std::atomic<bool>* stop);

  /// Takes back the last message that is not an answer, and what follows it. Returns its text, or nullopt if
  /// there is none.
  std::optional<std::string> undo();
  /// Takes back the last answer. Returns false if the last message is none.
  bool undo_answer();
  /// Sets what the system says before everything; nullopt: nothing.
  void set_system(const std::optional<std::string>& text);
  /// Forgets all messages but the system's.
  void clear();

  /// The conversation as JSON that --messages and load() read.
  std::string json(int indent = -1) const;
  /// Replaces the conversation, and what its template reads besides, by that of read_chats().
  void load(const std::string& json, const std::string& where);
  std::size_t size() const { return messages().size(); }
  /// Of the last message; empty if there is none.
  std::string last_role() const;
  /// The largest number of tokens that a conversation with its answer may have, if there is one.
  std::optional<std::int64_t> longest() const { return longest_; }

 private:
  Json& messages() { return conversation_["messages"]; }
  const Json& messages() const { return conversation_["messages"]; }
  /// What the model has read, cut to the longest beginning that it shares with `prompt`.
  std::unique_ptr<Decoding> take_decoding(const std::vector<std::int64_t>& prompt);

  const LoadedModel& opened_;
  const DecoderModel& model_;
  const Tokenizer& tokenizer_;
  const ModelChat& chat_;
  GenerationOptions options_;
  std::optional<std::int64_t> longest_;
  Json conversation_;
  std::unique_ptr<Decoding> decoding_;
  std::vector<std::int64_t> read_;  // at least the tokens that the decoding has read
  std::uint64_t answers_ = 0;       // each samples from a random stream of its own
};

}  // namespace heed::cli
