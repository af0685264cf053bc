// Who may ask: requests with the token, from a page of this server.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http_server.h"

namespace heed::server {

/// 128 random bits in hexadecimal.
std::string random_token();

/// The path of a request's target, and the value of a parameter of its query; empty where it has none.
/// Values are taken as sent.
std::string_view path_of(std::string_view target);
std::string_view parameter_of(std::string_view target, std::string_view name);
/// `a%2Fb` as a/b.
std::string percent_decoded(std::string_view text);

/// Whether a list, parted by commas, has names of headers alone, so that it may be sent back.
bool are_header_names(std::string_view list);

/// Compares in a time that does not tell where they differ.
bool same_secret(std::string_view given, std::string_view secret);

/// Whether the header Host names this end of the connection, localhost or `host`, the name or address that
/// the server listens on: another name may lead here by DNS rebinding.
bool names_this_server(const HttpRequest& request, const std::string& host);

/// Why a request is refused (403), or nothing. The header Host must name this server. An Origin must be that
/// of the host. The token is in the query for `/`, and in the header X-Heed-Token for anything else: pages of
/// other origins cannot send that one without being allowed to.
std::optional<HttpResponse> refusal(const HttpRequest& request, const std::string& host,
                                    const std::string& token);

}  // namespace heed::server
