// Chats and completions.
#include "serve/generation/text_job.h"
#include "serve/routes/routes.h"

namespace heed::serve {
namespace {

constexpr Need kGenerates{"completion", "continues texts"};
constexpr const char* kTextTopic = "Chats and completions";

void generate(const RequestContext& context, TextRequest request, const InspectionFields& inspected) {
  std::shared_ptr<Inspection> inspection = Inspection::of(context, inspected);
  auto job = std::make_shared<TextJob>(context.call, context.model, std::move(request));
  if (inspection != nullptr) job->inspect(std::move(inspection));
  TextJob& text = *job;
  context.scheduler.add(std::move(job), [&text] { text.begin(); });
}

void complete_texts(const RequestContext& context, CompletionFields given) {
  const InspectionFields inspection = given.inspection;
  generate(context, completion_request(context, std::move(given)), inspection);
}

void answer_chat(const RequestContext& context, ChatFields given) {
  const InspectionFields inspection = given.inspection;
  generate(context, chat_request(context, std::move(given)), inspection);
}

std::vector<server::AnswerForm> text_forms(bool chat) {
  return {
      {text_shape(chat, false)}, {text_shape(chat, true), server::kEventsType}, {.type = kSafetensorsType}};
}

}  // namespace

Routes completion_routes(Serving* serving) {
  return {
      to_model(serving,
               {"POST",
                {"/v1/chat/completions", "/chat/completions"},
                ErrorForm::openai,
                kTextTopic,
                "Answer a conversation",
                text_forms(true)},
               kGenerates, answer_chat),
      to_model(serving,
               {"POST",
                {"/v1/completions", "/completions"},
                ErrorForm::openai,
                kTextTopic,
                "Continue texts",
                text_forms(false)},
               kGenerates, complete_texts),
  };
}

}  // namespace heed::serve
