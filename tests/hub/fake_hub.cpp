#include "hub/fake_hub.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace heed::hub_test {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Reads the head of a request, up to an empty line. Returns an empty string if the client closes the
// connection.
std::string read_head(int connection, const std::atomic<bool>& closing) {
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    pollfd waiting{connection, POLLIN, 0};
    if (::poll(&waiting, 1, 50) == 0) {
      if (closing) return "";
      continue;
    }
    char c = 0;
    if (::recv(connection, &c, 1, 0) != 1) return "";
    head += c;
  }
  return head;
}

Call parse(const std::string& head) {
  Call call;
  const std::size_t space = head.find(' '), end = head.find(' ', space + 1);
  call.method = head.substr(0, space);
  call.target = head.substr(space + 1, end - space - 1);
  std::size_t at = head.find("\r\n") + 2;
  for (std::size_t next; (next = head.find("\r\n", at)) != at; at = next + 2) {
    const std::size_t colon = head.find(": ", at);
    call.headers[lower(head.substr(at, colon - at))] = head.substr(colon + 2, next - colon - 2);
  }
  return call;
}

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

std::string Call::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

Server::Server(std::function<Answer(const Call&)> handler) : handler_(std::move(handler)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no socket on 127.0.0.1");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

Server::~Server() {
  closing_ = true;
  acceptor_.join();
  for (std::thread& connection : connections_) connection.join();
  ::close(listener_);
}

std::vector<Call> Server::calls() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return calls_;
}

void Server::accept_all() {
  while (!closing_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (::poll(&waiting, 1, 50) <= 0) continue;
    const int connection = ::accept(listener_, nullptr, nullptr);
    if (connection >= 0) connections_.emplace_back([this, connection] { serve(connection); });
  }
}

void Server::serve(int connection) {
  const std::string head = read_head(connection, closing_);
  if (!head.empty()) {
    const Call call = parse(head);
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      calls_.push_back(call);
    }
    const Answer answer = handler_(call);
    for (int waited = 0; waited < answer.wait_ms && !closing_; waited += 20)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::string text = "HTTP/1.1 " + std::to_string(answer.status) +
                       " X\r\nConnection: close\r\nContent-Length: " +
                       std::to_string(answer.length.value_or(answer.body.size())) + "\r\n";
    for (const auto& [name, value] : answer.headers) text += name + ": " + value + "\r\n";
    text += "\r\n";
    if (call.method != "HEAD") text += answer.body.substr(0, answer.cut.value_or(answer.body.size()));
    send_all(connection, text);
  }
  ::close(connection);
}

std::string weights() {
  std::string bytes;
  for (int i = 0; i < 300000; ++i) bytes += static_cast<char>((static_cast<long long>(i) * i + i / 7) % 251);
  return bytes;
}

FakeHub::FakeHub()
    : storage([this](const Call& call) {
        const auto special = on_storage ? on_storage(call) : std::nullopt;
        return special ? *special : answer_from_storage(call);
      }),
      hub([this](const Call& call) {
        const auto special = on_hub ? on_hub(call) : std::nullopt;
        return special ? *special : answer(call);
      }) {
  files["config.json"] = {"{\"model_type\": \"bert\"}\n", "dc1fb7b6703fe03317c1a080b523bf475f3d4818"};
  files["tokenizer.json"] = {"{}\n", "0967ef424bce6791893e9a57bb952f80fd536e93"};
  files["README.md"] = {"[]\n", "fe51488c7066f6687ef680d6bfaa4f7768ef205c"};
  files["model.safetensors"] = {weights(), kWeightsHash, true};
}

Answer FakeHub::answer(const Call& call) {
  constexpr std::string_view kApi = "/api/models/";
  if (call.target.starts_with(kApi)) {
    if (!call.target.starts_with("/api/models/owner/model/"))
      return {401, {{"X-Error-Code", "RepoNotFound"}}, ""};
    if (!call.target.ends_with("/main") && !call.target.ends_with(kCommit) &&
        !call.target.ends_with("/refs%2Fpr%2F1"))
      return {404, {{"X-Error-Code", "RevisionNotFound"}}, ""};
    std::string list;
    for (const auto& [name, file] : files)
      list += (list.empty() ? "" : ", ") + ("{\"rfilename\": \"" + name + "\"}");
    return {
        200,
        {},
        "{\"id\": \"owner/model\", \"sha\": \"" + std::string(kCommit) + "\", \"siblings\": [" + list + "]}"};
  }
  const std::string place = "/owner/model/resolve/" + std::string(kCommit) + "/";
  const auto found = files.find(call.target.starts_with(place) ? call.target.substr(place.size()) : "");
  if (found == files.end()) return {404, {{"X-Error-Code", "EntryNotFound"}}, ""};
  const HubFile& file = found->second;
  if (!file.large) return {200, {{"ETag", '"' + file.etag + '"'}, {"X-Repo-Commit", kCommit}}, file.content};
  return {302,
          {{"ETag", "\"of the redirect\""},
           {"X-Repo-Commit", kCommit},
           {"X-Linked-Etag", '"' + file.etag + '"'},
           {"X-Linked-Size", std::to_string(file.content.size())},
           {"Location", storage.url() + "/signed/" + found->first}},
          "Found"};
}

Answer FakeHub::answer_from_storage(const Call& call) {
  constexpr std::string_view kPlace = "/signed/";
  const auto found = files.find(call.target.substr(kPlace.size()));
  if (found == files.end()) return {403, {}, "denied"};
  const std::string &content = found->second.content, range = call.header("range");
  if (range.empty() || ignore_ranges) return {200, {}, content};
  const std::size_t start = std::stoul(range.substr(std::strlen("bytes=")));
  if (start >= content.size()) return {416, {}, ""};
  return {206,
          {{"Content-Range", "bytes " + std::to_string(start) + "-" + std::to_string(content.size() - 1) +
                                 "/" + std::to_string(content.size())}},
          content.substr(start)};
}

int FakeHub::count(const Server& server, const std::string& method, const std::string& text) {
  const std::vector<Call> calls = server.calls();
  return static_cast<int>(std::count_if(calls.begin(), calls.end(), [&](const Call& call) {
    return call.method == method && call.target.find(text) != std::string::npos;
  }));
}

}  // namespace heed::hub_test
