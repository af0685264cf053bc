// The routes of `heed explore`: the page, and what it asks for.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "explore/explorer.h"
#include "server/application.h"

namespace heed::explore {

/// Hears what was computed: the path, the request and its answer, which may be an error.
using OnAnswer =
    std::function<void(std::string_view path, const std::string& request, const std::string& answer)>;

/// `explorer` must outlive what this returns. Requests for the page have the token in their address.
std::vector<server::Route> routes(Explorer& explorer, const std::string& token, OnAnswer on_answer = {});

/// The application of the routes: all of them need the token.
server::ApplicationOptions application_options(const std::string& host, const std::string& token);

/// The fields of requests as tables in Markdown.
std::string listed_fields();

/// What the explorer answers to a request of JSON, as its route does. Throws Error for what is wrong with it,
/// and Canceled once `stop` is true.
std::string answer_to(Explorer& explorer, std::string_view path, std::string_view request,
                      const std::atomic<bool>& stop);

/// The page for a file: a policy that runs its own script and style only and forbids all requests, and the
/// recording, in base64, which the page reads instead of asking a server; `notes`, a part of HTML, stand
/// above.
std::string recorded_page(std::string_view recording, std::string_view notes);

}  // namespace heed::explore
