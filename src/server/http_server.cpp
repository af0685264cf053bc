// The server: connections on one thread, with Boost.Asio, and the way of answers from other threads to it.
#include "server/http_server.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <mutex>
#include <set>
#include <sstream>

#include "heed/error.h"

namespace heed::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kLookAtStop{50}, kLookAtClient{100}, kLinger{1000}, kLastAnswers{2000};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// The network's thread, as other threads know it: it may have ended.
struct Network {
  std::mutex mutex;
  asio::io_context* io = nullptr;
  template <class Work>
  void post(Work work) {
    const std::lock_guard lock(mutex);
    if (io != nullptr) asio::post(*io, std::move(work));
  }
};

/// The status of a request that Beast could not read; 0: the client has gone.
int status_of(const error_code& error) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

// Headers that decide who may ask: several of one name could be read one way here and another way elsewhere.
const char* repeated_header(const http::request<http::string_body>& message) {
  for (const char* name : {"Host", "Origin", "X-Heed-Token", "Authorization"}) {
    if (message.count(name) > 1) return name;
  }
  return nullptr;
}

/// The room that the body of a request takes among those of all.
class Room {
 public:
  explicit Room(std::shared_ptr<std::atomic<std::size_t>> all) : all_(std::move(all)) {}
  ~Room() { *all_ -= bytes_; }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  /// Whether there is room for so many bytes of it.
  bool grow(std::size_t bytes, std::size_t most) {
    if (bytes <= bytes_) return true;
    *all_ += bytes - bytes_;
    bytes_ = bytes;
    return *all_ <= most;
  }

 private:
  const std::shared_ptr<std::atomic<std::size_t>> all_;
  std::size_t bytes_ = 0;
};

HttpRequest request_of(http::request<http::string_body> message, const tcp::socket& socket) {
  const auto text = [](auto part) { return std::string(part.data(), part.size()); };
  HttpRequest request{text(message.method_string()),
                      text(message.target()),
                      text(message[http::field::host]),
                      text(message["X-Heed-Token"]),
                      {},
                      {},
                      std::move(message.body())};
  if (message.find(http::field::origin) != message.end()) request.origin = text(message[http::field::origin]);
  error_code ignored;
  const tcp::endpoint here = socket.local_endpoint(ignored);
  request.local_address = here.address().to_string();
  request.client = socket.remote_endpoint(ignored).address().to_string();
  request.id = text(message["X-Request-Id"]);
  request.version = message.version();
  request.authorization = text(message[http::field::authorization]);
  request.content_type = text(message[http::field::content_type]);
  request.accept = text(message[http::field::accept]);
  request.content_encoding = text(message[http::field::content_encoding]);
  request.accept_encoding = text(message[http::field::accept_encoding]);
  request.asked_headers = text(message[http::field::access_control_request_headers]);
  return request;
}

http::response<http::string_body> message_of(const HttpResponse& response, bool keep_alive,
                                             unsigned version) {
  http::response<http::string_body> message;
  message.version(version);
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::content_type, response.type);
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  message.set("Referrer-Policy", "no-referrer");
  message.set("Cross-Origin-Resource-Policy", "same-origin");
  message.set("Cross-Origin-Opener-Policy", "same-origin");
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.keep_alive(keep_alive);
  return message;
}

/// A part of an answer as HTTP/1.1 sends it; the empty one ends it.
std::string chunk_of(std::string_view part) {
  std::ostringstream text;
  text << std::hex << part.size() << "\r\n" << part << "\r\n";
  return text.str();
}

}  // namespace

class HttpServer::State {
 public:
  State(const ServerOptions& options, Handle handle) : options_(options), handle_(std::move(handle)) {
    network_->io = &io_;
    listen();
  }
  ~State() {
    const std::lock_guard lock(network_->mutex);
    network_->io = nullptr;
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  void run(const std::atomic<bool>& stop);

 private:
  class Connection;
  class Exchange;

  void listen();
  void accept();
  bool make_room(const Connection& newest);
  bool is_busy() const;
  void look_at(const std::atomic<bool>& stop);
  void drain();
  void end();
  void await_last_answers();

  const ServerOptions options_;
  const Handle handle_;
  const std::shared_ptr<Network> network_ = std::make_shared<Network>();
  std::set<Connection*> connections_;  // outlives io_, whose handlers hold them
  const std::shared_ptr<std::atomic<std::size_t>> bodies_ =
      std::make_shared<std::atomic<std::size_t>>(0);  // their bytes
  bool stopping_ = false;                             // no more is accepted
  std::chrono::steady_clock::time_point deadline_;    // of what was
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_}, look_{io_};
};

/// One request and its answer: what other threads hold of a connection. What they call is done on the
/// network's thread, in order.
class HttpServer::State::Exchange : public Reply {
 public:
  Exchange(std::shared_ptr<Network> network, std::weak_ptr<Connection> connection, bool chunks,
           std::size_t most)
      : network_(std::move(network)), connection_(std::move(connection)), chunks_(chunks), most_(most) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void answer(HttpResponse response) override;
  void begin(HttpResponse response, std::string ping) override;
  void write(std::string_view part) override;
  void end() override;
  const std::atomic<bool>& stop() const override { return stop_; }
  bool has_left() const override { return left_; }

  // For the network's thread.
  void cancel(bool left) {
    if (left) left_ = true;
    stop_ = true;
  }
  struct Parts {
    std::string bytes;
    bool are_last = false;
  };
  Parts take() {
    const std::lock_guard lock(mutex_);
    return {std::exchange(pending_, {}), ended_};
  }
  void have_sent(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    unsent_ -= bytes;
  }
  bool uses_chunks() const { return chunks_; }
  /// Nothing can be sent any more.
  void close() {
    cancel(true);
    const std::lock_guard lock(mutex_);
    closed_ = true;
    pending_.clear();
  }

  /// The thread that answers has done what it will do.
  void let_go() {
    if (!has_begun_) answer(error_response(500, "the request ended without an answer"));
    if (!has_ended_) end();
  }

 private:
  template <class Work>
  void with_connection(Work work);
  void push(std::string bytes, bool last);

  const std::shared_ptr<Network> network_;
  const std::weak_ptr<Connection> connection_;
  const bool chunks_;                        // else the end of the connection ends the answer
  static constexpr std::size_t kBurst = 16;  // of an answer that has much to say at once
  static constexpr std::chrono::seconds kBehind{10};
  const std::size_t most_;                      // bytes that are not sent
  bool has_begun_ = false, has_ended_ = false;  // of the thread that answers
  std::atomic<bool> stop_{false}, left_{false};
  std::mutex mutex_;  // of what follows
  std::string pending_;
  std::size_t unsent_ = 0;   // those that are being sent included
  std::size_t largest_ = 0;  // part
  std::chrono::steady_clock::time_point behind_since_;
  bool ended_ = false, closed_ = false;
};

/// One client. Each handler holds the connection, which ends with the last of them.
class HttpServer::State::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(State& server, tcp::socket socket)
      : server_(server),
        limits_(server.options_.limits),
        socket_(std::move(socket)),
        timer_(socket_.get_executor()) {
    server_.connections_.insert(this);
  }
  ~Connection() { server_.connections_.erase(this); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    if (!server_.make_room(*this))
      return respond(error_response(429, "too many connections (close others, or try again later)"), false);
    wait();
  }
  bool is_open() const { return socket_.is_open(); }
  bool is_busy() const { return is_open() && (exchange_ != nullptr || writing_); }
  bool may_give_way() const {
    error_code error;
    const bool silent = socket_.available(error) == 0;  // else its request has arrived, and is read next
    return is_open() && !is_busy() && silent && !(is_admitted_ && reading_);
  }
  /// The order in which connections give way: strangers first, then those that were idle longest.
  auto claim() const { return std::pair(is_admitted_, idle_since_); }
  void close() {
    error_code ignored;
    disarm();
    socket_.close(ignored);
    if (exchange_) exchange_->close();
    exchange_.reset();
  }
  /// The server cannot wait for the answer any longer.
  void cancel() {
    if (exchange_) exchange_->cancel(false);
  }

  // What an exchange asks for; after it is over, nothing.
  void answer(const Exchange* exchange, HttpResponse response) {
    if (exchange != exchange_.get()) return;
    exchange_.reset();
    disarm();  // watch()
    respond(std::move(response), keep_alive_);
  }
  void begin(const Exchange* exchange, const HttpResponse& response, std::string ping) {
    if (exchange != exchange_.get()) return;
    is_admitted_ = true;
    keep_alive_ = keep_alive_ && exchange->uses_chunks() && !server_.stopping_;
    auto head = message_of(response, keep_alive_, version_);
    if (exchange->uses_chunks()) head.chunked(true);
    std::ostringstream text;
    text << head.base();
    ping_ = exchange->uses_chunks() && !ping.empty() ? chunk_of(ping) : std::move(ping);
    head_ = text.str();
    in_parts_ = true;
    send_parts();
  }
  void send_parts() {
    if (exchange_ == nullptr || !in_parts_ || writing_) return;
    const auto [bytes, are_last] = exchange_->take();
    sent_ = std::exchange(head_, {}) + bytes;
    if (sent_.empty()) {
      if (are_last) end_parts();
      return;
    }
    writing_ = true;
    wrote_ = std::chrono::steady_clock::now();
    asio::async_write(
        socket_, asio::buffer(sent_),
        [self = shared_from_this(), counted = bytes.size()](const error_code& error, std::size_t) {
          self->writing_ = false;
          self->wrote_ = std::chrono::steady_clock::now();
          if (error || self->exchange_ == nullptr) return self->close();
          self->exchange_->have_sent(counted);
          self->send_parts();
        });
  }
  void drop(const Exchange* exchange) {
    if (exchange == exchange_.get()) close();
  }

 private:
  void end_parts() {
    exchange_.reset();
    in_parts_ = false;
    disarm();  // watch()
    keep_alive_ ? wait() : linger();
  }

  void arm(milliseconds time) {
    timed_out_ = false;
    timer_.expires_after(time);
    timer_.async_wait([self = shared_from_this(), turn = ++turn_](const error_code& error) {
      if (error || turn != self->turn_) return;
      self->timed_out_ = true;
      error_code ignored;
      self->socket_.cancel(ignored);
    });
  }

  void disarm() {
    ++turn_;
    timer_.cancel();
  }

  // Between requests.
  void wait() {
    idle_since_ = std::chrono::steady_clock::now();
    // An idle connection keeps nothing of what its largest request and answer took.
    const std::size_t bytes = (message_ ? message_->body().size() : 0) + sent_.capacity();
    message_.reset();
    std::string().swap(sent_);
    give_memory_back(bytes);
    if (buffer_.size() > 0) return read();
    buffer_.shrink_to_fit();
    arm(is_admitted_ ? limits_.idle : limits_.first);
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
      error ? self->close() : self->read();
    });
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    body_limit_ = std::max(limits_.body_bytes, limits_.large_body_bytes);
    parser_->body_limit(body_limit_);
    reading_ = true;
    is_head_ = false;
    arm(limits_.read);
    http::async_read_header(
        socket_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->have_header(error); });
  }

  // Who sends much is known before there is memory for it.
  void have_header(const error_code& error) {
    if (error) return have_read(error);
    const auto& body_of = server_.options_.body_of;
    const Body body = body_of ? body_of(request_of(parser_->get(), socket_)) : Body::usual;
    if (body == Body::none && !parser_->is_done()) return have_read({});
    body_limit_ = body == Body::large ? limits_.large_body_bytes : limits_.body_bytes;
    room_ = std::make_shared<Room>(server_.bodies_);
    if (const auto length = parser_->content_length(); length && *length > body_limit_)
      return have_read(http::error::body_limit);
    parser_->body_limit(body_limit_);  // of a body without a length
    const auto expected = parser_->get()[http::field::expect];
    if (!boost::beast::iequals(expected, "100-continue")) return read_body();
    asio::async_write(socket_, asio::buffer(kContinue),
                      [self = shared_from_this()](const error_code& failed, std::size_t) {
                        failed ? self->have_read(failed) : self->read_body();
                      });
  }

  void read_body() {
    if (parser_->is_done()) return have_read({});
    http::async_read_some(
        socket_, buffer_, *parser_, [self = shared_from_this()](const error_code& failed, std::size_t) {
          if (failed) return self->have_read(failed);
          const std::size_t bytes = self->parser_->get().body().size();
          self->room_->grow(bytes, self->limits_.bodies_bytes) ? self->read_body() : self->refuse_body();
        });
  }

  void refuse_body() {
    reading_ = false;
    disarm();
    refuse(503, "request: the server holds as many bodies as it may, " +
                    std::to_string(limits_.bodies_bytes) + " bytes together (try again later)");
  }

  void have_read(const error_code& error) {
    reading_ = false;
    disarm();
    if (error) {
      const int status = timed_out_ ? 408 : status_of(error);
      if (status == 0) return close();
      return refuse(status, status == 413   ? too_large()
                            : status == 431 ? "request: expected headers of at most " +
                                                  std::to_string(limits_.header_bytes) + " bytes, got more"
                            : status == 408 ? "request: took too long to arrive"
                                            : "malformed HTTP request");
    }
    if (const char* name = repeated_header(parser_->get()))
      return refuse(400, std::string(name) + ": expected one header, got several");
    keep_alive_ = parser_->get().keep_alive() && parser_->is_done();
    version_ = parser_->get().version();
    HttpRequest request = request_of(parser_->release(), socket_);
    request.room = std::move(room_);
    request.stopping = server_.stopping_;
    is_head_ = request.method == "HEAD";
    if (buffer_.size() == 0) buffer_.shrink_to_fit();
    exchange_ =
        std::make_shared<Exchange>(server_.network_, weak_from_this(), version_ >= 11, limits_.unsent_bytes);
    wrote_ = std::chrono::steady_clock::now();
    watch();
    server_.handle_(std::move(request),
                    std::shared_ptr<Reply>(exchange_.get(), [held = exchange_](Reply*) { held->let_go(); }));
  }

  std::string too_large() const {
    const auto length = parser_->get()[http::field::content_length];
    return "request: expected a body of at most " + std::to_string(body_limit_) + " bytes, got " +
           (length.empty() ? "more" : std::string(length.data(), length.size()));
  }

  // What could not be read, perhaps with its path.
  void refuse(int status, const std::string& message) {
    const auto& form = server_.options_.refuse;
    const auto known =
        form ? request_of(http::request<http::string_body>(parser_->get().base()), socket_) : HttpRequest();
    parser_.reset();
    room_.reset();
    respond(form ? form(status, message, known) : error_response(status, message), false);
  }

  // A client that has closed its end wants no answer. It is asked for now and then: what it sent before may
  // wait to be read, so that the end cannot be.
  void watch() {
    timer_.expires_after(kLookAtClient);
    timer_.async_wait([self = shared_from_this(), turn = ++turn_](const error_code& error) {
      if (error || turn != self->turn_ || self->exchange_ == nullptr) return;
      pollfd end{self->socket_.native_handle(), POLLRDHUP, 0};
      if (::poll(&end, 1, 0) > 0) self->exchange_->cancel(true);
      self->look_at_parts();
    });
  }

  // Of an answer in parts: whether its client reads, and has heard something lately.
  void look_at_parts() {
    const auto silent = std::chrono::steady_clock::now() - wrote_;
    if (in_parts_ && writing_ && silent > limits_.write) return close();
    if (in_parts_ && !writing_ && !ping_.empty() && silent > limits_.ping) {
      head_ = ping_;
      send_parts();
    }
    watch();
  }

  void respond(HttpResponse response, bool keep_alive) {
    if (!socket_.is_open()) return;
    is_admitted_ = is_admitted_ || response.status != 403;
    keep_alive = keep_alive && !server_.stopping_;
    writing_ = true;
    message_ = message_of(response, keep_alive, version_);
    message_->body() = std::move(response.body);
    message_->prepare_payload();
    if (is_head_) message_->body().clear();
    arm(limits_.write);
    http::async_write(socket_, *message_,
                      [self = shared_from_this(), keep_alive](const error_code& error, std::size_t) {
                        self->writing_ = false;
                        self->disarm();
                        if (error) return self->close();
                        keep_alive ? self->wait() : self->linger();
                      });
  }

  // Closing with unread data would reset the connection, and the client might lose the answer.
  void linger() {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    arm(kLinger);
    discard();
  }
  void discard() {
    socket_.async_read_some(asio::buffer(rest_),
                            [self = shared_from_this()](const error_code& error, std::size_t) {
                              error || self->timed_out_ ? self->close() : self->discard();
                            });
  }

  State& server_;
  const ServerLimits& limits_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> message_;
  std::shared_ptr<Exchange> exchange_;  // until it is answered
  std::string head_, ping_, sent_;      // of an answer in parts: what is sent first, in silence, and now
  std::chrono::steady_clock::time_point wrote_;  // when the client last took something
  std::size_t body_limit_ = 0;                   // of the request that is read
  std::shared_ptr<Room> room_;                   // of its body
  std::array<char, 4096> rest_{};
  std::uint64_t turn_ = 0;  // of the timer
  std::chrono::steady_clock::time_point idle_since_ = std::chrono::steady_clock::now();
  bool is_admitted_ = false;  // some request of it was not refused
  bool timed_out_ = false, reading_ = false, writing_ = false, is_head_ = false;
  bool keep_alive_ = false, in_parts_ = false;
  unsigned version_ = 11;  // 10: HTTP/1.0
};

template <class Work>
void HttpServer::State::Exchange::with_connection(Work work) {
  // The address alone is compared: this may be gone by then.
  network_->post([connection = connection_, exchange = this, work = std::move(work)]() mutable {
    if (const auto alive = connection.lock()) work(*alive, exchange);
  });
}

void HttpServer::State::Exchange::answer(HttpResponse response) {
  has_begun_ = has_ended_ = true;
  with_connection([response = std::move(response)](Connection& connection, const Exchange* exchange) mutable {
    connection.answer(exchange, std::move(response));
  });
}

void HttpServer::State::Exchange::begin(HttpResponse response, std::string ping) {
  has_begun_ = true;
  with_connection([response, ping = std::move(ping)](Connection& connection, const Exchange* exchange) {
    connection.begin(exchange, response, ping);
  });
  write(response.body);
}

void HttpServer::State::Exchange::write(std::string_view part) {
  if (!part.empty()) push(chunks_ ? chunk_of(part) : std::string(part), false);
}

void HttpServer::State::Exchange::end() {
  has_ended_ = true;
  push(chunks_ ? chunk_of({}) : std::string(), true);
}

void HttpServer::State::Exchange::push(std::string bytes, bool last) {
  bool too_slow = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const auto now = std::chrono::steady_clock::now();
    if (unsent_ <= most_) behind_since_ = now;
    too_slow = unsent_ > kBurst * most_ + largest_ || now - behind_since_ > kBehind;
    largest_ = std::max(largest_, bytes.size());
    pending_ += bytes;
    unsent_ += bytes.size();
    ended_ = ended_ || last;
  }
  if (too_slow) close();
  with_connection([too_slow](Connection& connection, const Exchange* exchange) {
    too_slow ? connection.drop(exchange) : connection.send_parts();
  });
}

void HttpServer::State::listen() {
  const std::string where = options_.host + ":" + std::to_string(options_.port);
  error_code error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(options_.host, std::to_string(options_.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty())
    throw Error("--host: " + options_.host + " not found (" + error.message() + ")");
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use)
    throw Error("--port: " + where + " is in use (choose another; --port 0 takes one that is free)");
  if (error) throw Error("server: cannot listen on " + where + ": " + error.message());
}

void HttpServer::State::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // of file descriptors, for example, there may be more later
      pause_.expires_after(kLookAtStop);
      pause_.async_wait([this](const error_code& stopped) {
        if (!stopped) accept();
      });
      return;
    }
    if (connections_.size() < 2 * options_.limits.connections)
      std::make_shared<Connection>(*this, std::move(socket))->start();
    accept();
  });
}

// Closes an idle connection if there are too many; returns false if there are, and all others are busy.
bool HttpServer::State::make_room(const Connection& newest) {
  const auto open = std::count_if(connections_.begin(), connections_.end(),
                                  [](const Connection* connection) { return connection->is_open(); });
  if (static_cast<std::size_t>(open) <= options_.limits.connections) return true;
  Connection* first = nullptr;  // to give way
  for (Connection* connection : connections_) {
    if (connection == &newest || !connection->may_give_way()) continue;
    if (first == nullptr || connection->claim() < first->claim()) first = connection;
  }
  if (first == nullptr) return false;
  first->close();
  return true;
}

bool HttpServer::State::is_busy() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const Connection* connection) { return connection->is_busy(); });
}

void HttpServer::State::look_at(const std::atomic<bool>& stop) {
  if (options_.each_look) options_.each_look();
  if (stop) {
    stopping_ = true;
    deadline_ = std::chrono::steady_clock::now() + options_.limits.drain;
    return drain();
  }
  look_.expires_after(kLookAtStop);
  look_.async_wait([this, &stop](const error_code&) { look_at(stop); });
}

// Waits for the answers to what was accepted; those who ask now are told so.
void HttpServer::State::drain() {
  if (options_.each_look) options_.each_look();
  if (!is_busy() || std::chrono::steady_clock::now() >= deadline_) return end();
  look_.expires_after(kLookAtStop);
  look_.async_wait([this](const error_code&) { drain(); });
}

// Cancels what is under way, and gives its answers a moment to leave.
void HttpServer::State::end() {
  error_code ignored;
  acceptor_.close(ignored);
  deadline_ = std::chrono::steady_clock::now() + kLastAnswers;
  for (Connection* connection : connections_)
    connection->is_busy() ? connection->cancel() : connection->close();
  await_last_answers();
}

void HttpServer::State::await_last_answers() {
  if (!is_busy() || std::chrono::steady_clock::now() >= deadline_) return io_.stop();
  look_.expires_after(kLookAtStop);
  look_.async_wait([this](const error_code&) { await_last_answers(); });
}

void HttpServer::State::run(const std::atomic<bool>& stop) {
  accept();
  look_at(stop);
  io_.run();
}

HttpServer::HttpServer(const ServerOptions& options, Handle handle)
    : state_(std::make_unique<State>(options, std::move(handle))) {}

HttpServer::~HttpServer() = default;
std::uint16_t HttpServer::port() const { return state_->endpoint().port(); }
bool HttpServer::is_loopback() const { return state_->endpoint().address().is_loopback(); }
void HttpServer::run(const std::atomic<bool>& stop) { state_->run(stop); }

}  // namespace heed::server
