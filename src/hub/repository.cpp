// What the hub says of a repository: its commit, its files, and their ETags.
#include "hub/repository.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/json_field.h"
#include "core/strings.h"
#include "heed/core/utf8.h"
#include "heed/io/hub_cache.h"

namespace heed::hub {
namespace {

constexpr std::size_t kLongestAnswer = std::size_t{16} << 20;

// Percent-encodes everything except letters, digits and other characters that are safe in a path; those in
// `also` are kept too.
std::string percent_encoded(std::string_view text, std::string_view also) {
  std::string result;
  for (const char c : text) {
    const bool plain = is_ascii_letter_or_digit(c) || std::string_view("-._~").find(c) != text.npos;
    if (plain || also.find(c) != also.npos) {
      result += c;
    } else {
      result += '%';
      append_hex(result, static_cast<std::uint8_t>(c), kUpperHexDigits);
    }
  }
  return result;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }

std::optional<std::uint64_t> whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

bool is_file_name(std::string_view name) {
  constexpr std::size_t kLongest = 1024, kLongestPart = 255;
  if (name.empty() || name.size() > kLongest || first_invalid_utf8(name)) return false;
  if (std::any_of(name.begin(), name.end(), [](char c) { return is_control(c) || c == '\\'; })) return false;
  for (std::string_view rest = name;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > kLongestPart) return false;
    if (slash == rest.npos) return true;
    rest.remove_prefix(slash + 1);
  }
}

bool is_etag(std::string_view etag) {
  constexpr std::size_t kLongest = 128;
  return !etag.empty() && etag.size() <= kLongest && etag.front() != '.' && !etag.ends_with(".incomplete") &&
         std::all_of(etag.begin(), etag.end(),
                     [](char c) { return is_ascii_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

std::string plain_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  while (!etag.empty() && etag.front() == '"') etag.remove_prefix(1);
  while (!etag.empty() && etag.back() == '"') etag.remove_suffix(1);
  return std::string(etag);
}

Repository parse_repository(std::string_view answer, const std::string& where) {
  const Json json = parse_json(answer, where);
  const JsonField document(json, where), commit = document.at("sha");
  Repository repository;
  repository.commit = commit.string();
  if (!is_commit(repository.commit)) commit.fail("a commit hash");
  const auto files = document.find("siblings");
  for (std::size_t i = 0; files && i < files->array_size(); ++i) {
    const JsonField name = files->at(i).at("rfilename");
    if (!is_file_name(name.string())) name.fail("the path of a file inside the repository");
    repository.files.push_back(name.string());
  }
  return repository;
}

Repository ask_repository(Client& client, const std::string& name, const std::string& revision) {
  Request request;
  request.url =
      client.settings().endpoint + "/api/models/" + name + "/revision/" + percent_encoded(revision, "");
  request.headers = {"Accept: application/json"};
  request.silence_seconds = client.settings().connect_seconds;
  request.limit = kLongestAnswer;
  const Response response = client.ask(request, false);
  if (response.status != 200) throw_refusal(response, client.settings(), name, revision, "");
  Repository repository = parse_repository(response.body, request.url);
  repository.name = name;
  repository.revision = revision;
  return repository;
}

std::string file_url(const Settings& settings, const Repository& repository, const std::string& file) {
  return settings.endpoint + "/" + repository.name + "/resolve/" + repository.commit + "/" +
         percent_encoded(file, "/");
}

RemoteFile ask_file(Client& client, const Repository& repository, const std::string& file) {
  Request request;
  request.url = file_url(client.settings(), repository, file);
  request.head = true;
  request.headers = {"Accept-Encoding: identity"};
  request.silence_seconds = client.settings().connect_seconds;
  const Response response = client.ask(request, true);
  const std::string where = repository.name + ": " + file + ": ";
  if (response.status != 200 && !response.is_redirect())
    throw_refusal(response, client.settings(), repository.name, repository.revision, file);
  const std::string commit = response.header("x-repo-commit");
  if (!commit.empty() && commit != repository.commit)
    throw Error(where + "expected commit " + repository.commit + ", got " + quoted_text(commit) +
                " (try again)");
  const std::string linked = response.header("x-linked-etag"), size = response.header("x-linked-size");
  RemoteFile remote;
  remote.name = file;
  remote.etag = plain_etag(linked.empty() ? response.header("etag") : linked);
  if (!is_etag(remote.etag)) {
    throw Error(where + "expected an ETag that can name a file, got \"" + quoted_text(remote.etag) +
                "\" (is HF_ENDPOINT a Hugging Face hub?)");
  }
  const auto bytes =
      whole_number(!size.empty() || response.is_redirect() ? size : response.header("content-length"));
  if (!bytes)
    throw Error(where + "expected its size, got no Content-Length (is HF_ENDPOINT a Hugging Face hub?)");
  remote.size = *bytes;
  return remote;
}

}  // namespace heed::hub
