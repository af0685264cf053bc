// The table of routes.
#include "explore/routes.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "explore/page.h"
#include "heed/error.h"
#include "server/access.h"

namespace heed::explore {
namespace {

/// The page with its marks replaced; `recording` last, in which no mark is looked for.
std::string filled(std::string_view nonce, std::string_view policy, std::string_view notes,
                   std::string_view recording) {
  std::string page;
  std::string_view rest = kExplorePage;
  const auto copy_until = [&](std::string_view mark, std::string_view value) {
    const std::size_t at = rest.find(mark);
    HEED_ASSERT(at != rest.npos, "a mark is missing");
    page += rest.substr(0, at);
    page += value;
    rest.remove_prefix(at + mark.size());
  };
  copy_until("@POLICY@", policy);
  copy_until("@NONCE@", nonce);
  copy_until("@NOTES@", notes);
  copy_until("@RECORDING@", recording);
  copy_until("@NONCE@", nonce);
  page += rest;
  return page;
}

/// The page for a server, whose script and style have the nonce.
std::string served_page(std::string_view nonce) {
  return filled(" nonce=\"" + std::string(nonce) + '"', "", "", "");
}

using server::Call;
using server::ErrorForm;
using server::HttpResponse;
using server::Route;
using CallPointer = std::shared_ptr<Call>;

constexpr const char *kPageTopic = "The page", *kModelTopic = "Models and files", *kRunTopic = "Runs";

// The page with a nonce of its own: no other script or style is run.
HttpResponse page_response() {
  const std::string nonce = server::random_token();
  return {200,
          served_page(nonce),
          "text/html; charset=utf-8",
          {{"Content-Security-Policy",
            "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce +
                "'; img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'"}}};
}

// What a reader sees who opens the address without its token.
HttpResponse refusal_page() {
  return {403,
          "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>heed "
          "explore</title>\n</head>\n<body>\n<main>\n"
          "<h1>This address lacks the server's token</h1>\n"
          "<p>Open the address that <code>heed explore</code> printed when it was started: it ends in "
          "<code>?token=</code> and 32 letters and digits, which are new at each "
          "start.</p>\n</main>\n</body>\n</html>\n",
          "text/html; charset=utf-8",
          {{"Content-Security-Policy",
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}}};
}

/// -1 for what is no number.
std::int64_t number_in(std::string_view text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

HttpResponse chunk_response(const Explorer& explorer, const std::string& target) {
  const std::int64_t run = number_in(server::parameter_of(target, "run"));
  const std::int64_t index = number_in(server::parameter_of(target, "pack"));
  if (run < 0 || index < 0) return server::error_response(400, "pack: expected ?run=N&pack=N");
  auto text = explorer.chunk(run, index);
  if (!text) return server::error_response(404, "pack: not found (run again)");
  return {200, std::move(*text), "text/plain; charset=utf-8"};
}

/// What the explorer computes for a JSON object.
struct Question {
  const char *path, *summary;
  void (*walk)(Fields& fields);
  std::string (*answer)(Explorer& explorer, Fields& fields, const std::atomic<bool>& stop);
};

template <class Request>
constexpr auto kWalk = [](Fields& fields) { Request().walk(fields); };

template <class Request, std::string (Explorer::*kAnswer)(const Request&, const std::atomic<bool>&)>
constexpr Question question(const char* path, const char* summary) {
  return {path, summary, kWalk<Request>,
          [](Explorer& explorer, Fields& fields, const std::atomic<bool>& stop) {
            Request request;
            request.walk(fields);
            fields.require_known();
            return (explorer.*kAnswer)(request, stop);
          }};
}

constexpr Question kQuestions[] = {
    question<RunRequest, &Explorer::run>("/api/run", "Maps of a text or a file, and what the model predicts"),
    question<RunRequest, &Explorer::ids>("/api/tokens", "The ids of the tokens of a text"),
    question<AblationRequest, &Explorer::ablation>("/api/ablation", "What a logit loses without each head"),
    question<FlowRequest, &Explorer::flow>("/api/flow", "What each part adds to a logit"),
    question<StepsRequest, &Explorer::steps>("/api/steps", "The steps of one head for one query"),
    question<WhyRequest, &Explorer::why>("/api/why", "What makes a head attend to a key"),
    question<MistakesRequest, &Explorer::mistakes>("/api/traps", "A run beside one with mistakes"),
};

// Those that the page of a recording may ask again.
bool is_recorded(std::string_view path) { return path != "/api/tokens"; }

Route described(const Question& one) {
  Route route{"POST", {one.path}, ErrorForm::message, kRunTopic, one.summary};
  route.walk = one.walk;
  return route;
}

Route question_route(Explorer& explorer, const Question& one, const OnAnswer& on_answer) {
  Route route = described(one);
  route.answer = [&explorer, &one, on_answer](const CallPointer& call, Fields& fields) {
    const auto told = [&](const std::string& answer) {
      if (on_answer && is_recorded(one.path)) on_answer(one.path, call->request().body, answer);
    };
    try {
      std::string answer = one.answer(explorer, fields, call->stop());
      told(answer);
      call->answer(HttpResponse{200, std::move(answer)});
    } catch (const Error& error) {
      told(json_text(Json{{"error", error.what()}}));
      throw;
    }
  };
  return route;
}

Route page_route(const std::string& token) {
  Route route{"GET", {"/"}, ErrorForm::message, kPageTopic, "The page, with ?token=TOKEN"};
  route.is_public = route.at_once = true;  // its token is in its address
  route.answer = [token](const CallPointer& call, Fields&) {
    const bool is_known = server::same_secret(server::parameter_of(call->request().target, "token"), token);
    call->answer(is_known ? page_response() : refusal_page());
  };
  return route;
}

Route file_route(Explorer& explorer) {
  Route route{"POST",
              {"/api/file"},
              ErrorForm::message,
              kModelTopic,
              "Holds a file for a model (?model=N), and gives it a number"};
  route.is_large = true;
  route.answer = [&explorer](const CallPointer& call, Fields&) {
    const std::int64_t model = number_in(server::parameter_of(call->request().target, "model"));
    if (model < 0) throw Error("file: expected ?model=N");
    call->answer(HttpResponse{
        200, explorer.add_file(static_cast<std::size_t>(model), call->request().body, call->stop())});
  };
  return route;
}

}  // namespace

std::vector<server::Route> routes(Explorer& explorer, const std::string& token, OnAnswer on_answer) {
  const auto get = [](const char* path, const char* summary, auto answer) {
    Route route{"GET", {path}, ErrorForm::message, kModelTopic, summary, {}, answer};
    route.at_once = true;
    return route;
  };
  std::vector<Route> all{page_route(token), server::document_route(kPageTopic)};
  all.push_back(get("/api/models", "The models, their kinds and sizes",
                    [models = explorer.models()](const CallPointer& call, Fields&) {
                      call->answer(HttpResponse{200, models});
                    }));
  all.push_back(
      get("/api/pack", "The numbers of a map (?run=N&pack=N)", [&explorer](const CallPointer& call, Fields&) {
        call->answer(chunk_response(explorer, call->request().target));
      }));
  all.push_back(file_route(explorer));
  for (const Question& one : kQuestions) all.push_back(question_route(explorer, one, on_answer));
  return all;
}

server::ApplicationOptions application_options(const std::string& host, const std::string& token) {
  server::ApplicationOptions options;
  options.access = {.token = token, .host = host};
  options.title = "heed explore";
  options.errors = ErrorForm::message;
  options.strict = true;
  return options;
}

std::string listed_fields() {
  std::vector<Route> all;
  for (const Question& one : kQuestions) all.push_back(described(one));
  return server::field_tables(all);
}

std::string answer_to(Explorer& explorer, std::string_view path, std::string_view request,
                      const std::atomic<bool>& stop) {
  const auto* one = std::find_if(std::begin(kQuestions), std::end(kQuestions),
                                 [&](const Question& question) { return question.path == path; });
  HEED_ASSERT(one != std::end(kQuestions), "unknown question");
  const Json body = server::parse_body(request);
  const server::RequestObject object(body);
  Fields fields(object, true);
  return one->answer(explorer, fields, stop);
}

std::string recorded_page(std::string_view recording, std::string_view notes) {
  std::string policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ";
  policy.append("script-src 'sha256-").append(kExploreScriptHash);
  policy.append("'; style-src 'sha256-").append(kExploreStyleHash);
  policy += "'; img-src data: blob:; base-uri 'none'; form-action 'none'\">\n";
  std::string element = "<script type=\"text/plain\" id=\"recording\">";
  element.append(recording).append("</script>\n");
  std::string above;
  if (!notes.empty())
    above.append("<section id=\"notes\" aria-label=\"Notes\">\n").append(notes).append("</section>\n");
  return filled("", policy, above, element);
}

}  // namespace heed::explore
