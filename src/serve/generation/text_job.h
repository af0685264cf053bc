// A generation whose tokens become the text of an answer, whole or as events, in the form of OpenAI's chats
// and completions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/chat/reasoning.h"
#include "heed/text/tokenizer.h"
#include "serve/generation/text_request.h"
#include "serve/generation/token_scores.h"
#include "serve/inspection.h"
#include "serve/scheduler/scheduler.h"

namespace heed::serve {

/// The text of a generation as it is sent: up to the first stop string, which is sent if it is included.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops, bool includes_stop = false)
      : stops_(std::move(stops)), includes_stop_(includes_stop) {}
  /// Takes more text, and returns what can be sent: what might begin a stop string is held back.
  std::string push(std::string_view text);
  /// Returns what is held back, as no more text comes.
  std::string finish() { return std::exchange(held_, {}); }
  /// Whether a stop string was found. Nothing is returned after that.
  bool is_stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;  // none is empty
  bool includes_stop_;
  std::string held_;
  bool stopped_ = false;
};

/// The shape (server::shape_schema()) of a whole answer, or of an event.
std::string text_shape(bool chat, bool event);

class TextJob : public GenerationJob {
 public:
  /// Begins the events of a streamed answer, if the request has been accepted: see begin().
  TextJob(std::shared_ptr<Call> given_call, const ServedModel& given_model, TextRequest request);
  /// Before it is added to the scheduler: with taps. Throws ApiError for values of an answer that comes as
  /// events, or has several choices.
  void inspect(std::shared_ptr<Inspection> inspection);
  /// Before it is added to the scheduler.
  void begin();

  bool on_token(std::size_t index, const GeneratedToken& token) override;
  void on_finished(std::size_t index, const Hypothesis& result, std::int64_t cached_tokens) override;
  void on_all() override;

 protected:
  struct Choice {
    Choice(const Tokenizer& tokenizer, const TextRequest& request)
        : decoder(tokenizer, request.skip_special),
          stop(request.stops, request.includes_stop),
          reasoning(request.is_thinking, request.reasoning_in_content),
          calls(request.calls, request.tools) {}
    StreamingDecoder decoder;
    StopText stop;
    ReasoningStream reasoning;
    ToolCallStream calls;
    std::unique_ptr<PromptScores> prompt;  // or null
    bool is_echoed = false;
    std::int64_t last = 0;       // token
    std::int64_t tokens = 0;     // new ones
    std::int64_t cached = 0;     // tokens of its prompt
    std::int64_t thought = 0;    // tokens that are reasoning
    std::int64_t offset = 0;     // characters of the text so far, for log-probabilities
    std::string text, thoughts;  // of a whole answer
    Json tool_calls = Json::array();
    std::vector<std::int64_t> ids;
    std::vector<ScoredToken> scores;  // of tokens that are not sent
    std::string reason;
    double likelihood = 0;  // log-probability per token
  };
  /// What of an answer is known.
  struct Part {
    std::string text, thoughts;
    bool empty() const { return text.empty() && thoughts.empty(); }
    void add(const Part& more) {
      text += more.text;
      thoughts += more.thoughts;
    }
  };

  // The form of the answer. The first three are of a stream alone.
  virtual void write_begin();
  virtual void write_part(std::size_t index, const Part& part);
  virtual void write_end(std::size_t index, const Part& part);  ///< the last part, calls, and the reason
  virtual void write_all();

  Json usage() const;

  const TextRequest request_;
  const std::int64_t created_;
  std::vector<Choice> choices_;

 private:
  std::string shown(std::int64_t id, const std::int64_t* before) const;
  ScoredToken scored(const Choice& choice, const GeneratedToken& token) const;
  void echo(std::size_t index);
  void score_prompt(std::size_t index);
  std::vector<std::size_t> likeliest() const;
  // The place of the prompt that a candidate goes on from.
  std::size_t prompt_of(std::size_t index) const {
    return index / static_cast<std::size_t>(request_.candidates);
  }
  Part split(Choice& choice, const std::string& text) const;
  Part part_of(Choice& choice, const ReasoningStream::Piece& piece) const;
  void send(Json choice);
  Json choice_of(std::size_t index, const Part& part, bool last);
  Json envelope(bool event);
  std::int64_t cached_tokens() const;

  const std::string id_;
  std::shared_ptr<Inspection> inspection_;  // or null
  std::int64_t prompt_tokens_ = 0, completion_tokens_ = 0;
  bool has_warned_ = false;
};

}  // namespace heed::serve
