// Who may ask: requests with a key or token, from a page of this server.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/key_limits.h"
#include "server/messages.h"

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

struct AccessOptions {
  std::vector<Key> keys = {};  ///< requests need one of them (Authorization: Bearer), if there are any
  /// All requests need it, of unknown paths too, in the header X-Heed-Token, which pages of other origins
  /// cannot send without being allowed to; empty: none.
  std::string token = {};
  std::vector<std::string> origins = {};  ///< of pages of other servers that may ask; `*`: any
  /// The name or address that the server listens on; empty: any name of this server may be asked for, for
  /// servers that other machines can reach.
  std::string host = {};
  std::vector<std::string> hosts = {};  ///< further names that may be asked for
};

/// Whether an Origin is that of a page of this server.
bool is_own_page(const HttpRequest& request, const AccessOptions& access);
/// Whether a page of another origin may ask.
bool is_listed_page(const HttpRequest& request, const AccessOptions& access);

/// That of the keys which a request has; null: it has none of them.
const Key* key_of(const HttpRequest& request, const AccessOptions& access);

/// Throws ApiError (403) for a header Host that does not name this server: this end of the connection,
/// `localhost`, a name below it, `host.docker.internal`, the host, or one of the hosts, in any case. Another
/// name may lead here by DNS rebinding. HTTP/1.0 may leave the header out.
void require_host(const HttpRequest& request, const AccessOptions& access);

/// Throws ApiError (401, 403) for who may not ask: an Origin must be that of this server or be listed, and a
/// key or token be right, if `needs_key`.
void require_access(const HttpRequest& request, const AccessOptions& access, bool needs_key);

}  // namespace heed::server
