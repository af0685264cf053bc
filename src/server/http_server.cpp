// The server: connections on one thread, with Boost.Asio, and a queue of requests for a thread that computes.
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
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "core/json.h"
#include "heed/canceled.h"
#include "heed/error.h"

namespace heed::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kLookAtStop{50}, kLookAtClient{100}, kLinger{1000}, kLastAnswers{2000};

/// A request on its way to the computing thread and back.
struct Job {
  HttpRequest request;
  std::atomic<bool> stop{false}, left{false};  // left: stopped because the client closed its end
  std::function<void(HttpResponse)> done;      // called and destroyed on the network's thread
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
  for (const char* name : {"Host", "Origin", "X-Heed-Token"}) {
    if (message.count(name) > 1) return name;
  }
  return nullptr;
}

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
  return request;
}

http::response<http::string_body> message_of(const HttpResponse& response, bool keep_alive) {
  http::response<http::string_body> message;
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::content_type, response.type);
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  message.set("Referrer-Policy", "no-referrer");
  message.set("Cross-Origin-Resource-Policy", "same-origin");
  message.set("Cross-Origin-Opener-Policy", "same-origin");
  for (const auto& [name, value] : response.headers) message.set(name, value);
  message.body() = response.body;
  message.keep_alive(keep_alive);
  message.prepare_payload();
  return message;
}

}  // namespace

class HttpServer::State {
 public:
  State(const ServerOptions& options, AtOnce at_once, Compute compute)
      : options_(options), at_once_(std::move(at_once)), compute_(std::move(compute)) {
    listen();
  }
  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  void run(const std::atomic<bool>& stop);

 private:
  class Connection;

  void listen();
  void accept();
  bool make_room(const Connection& newest);
  void look_at(const std::atomic<bool>& stop);
  void end();
  void work();
  /// Returns false if too many requests wait.
  bool enqueue(std::shared_ptr<Job> job);
  HttpResponse answer(Job& job) const;

  const ServerOptions options_;
  const AtOnce at_once_;
  const Compute compute_;
  std::set<Connection*> connections_;  // outlives io_, whose handlers hold them
  bool ending_ = false;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_}, look_{io_};

  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> jobs_;
  std::shared_ptr<Job> current_;
  bool stopped_ = false;
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
      return respond(error_response(429, "too many connections (close other tabs)"), false);
    wait();
  }
  bool is_open() const { return socket_.is_open(); }
  bool is_busy() const { return computing_ || writing_; }
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
  }

 private:
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
    if (buffer_.size() > 0) return read();
    arm(is_admitted_ ? limits_.idle : limits_.first);
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
      error ? self->close() : self->read();
    });
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    parser_->body_limit(std::max(limits_.body_bytes, limits_.large_body_bytes));
    reading_ = true;
    arm(limits_.read);
    http::async_read_header(
        socket_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->have_header(error); });
  }

  // Who sends much is known before there is memory for it.
  void have_header(const error_code& error) {
    if (error) return have_read(error);
    const auto& is_large = server_.options_.has_large_body;
    const bool large = is_large && is_large(request_of(parser_->get(), socket_));
    const std::size_t limit = large ? limits_.large_body_bytes : limits_.body_bytes;
    if (const auto length = parser_->content_length(); length && *length > limit)
      return have_read(http::error::body_limit);
    parser_->body_limit(limit);  // of a body without a length
    http::async_read(
        socket_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& failed, std::size_t) { self->have_read(failed); });
  }

  void have_read(const error_code& error) {
    reading_ = false;
    disarm();
    if (error) {
      const int status = timed_out_ ? 408 : status_of(error);
      if (status == 0) return close();
      return respond(error_response(status, status == 413   ? "request: too large"
                                            : status == 431 ? "request: header too large"
                                            : status == 408 ? "request: took too long to arrive"
                                                            : "malformed HTTP request"),
                     false);
    }
    if (const char* name = repeated_header(parser_->get()))
      return respond(error_response(400, std::string(name) + ": expected one header, got several"), false);
    const bool keep_alive = parser_->get().keep_alive();
    auto job = std::make_shared<Job>();
    job->request = request_of(parser_->release(), socket_);
    is_head_ = job->request.method == "HEAD";
    const auto response = server_.at_once_(job->request);
    is_admitted_ = is_admitted_ || !response || response->status != 403;
    if (response) return respond(*response, keep_alive);
    job->done = [self = shared_from_this(), keep_alive](const HttpResponse& computed) {
      self->computing_ = false;
      self->disarm();  // watch()
      self->respond(computed, keep_alive);
    };
    if (!server_.enqueue(job))
      return respond(error_response(429, "too many requests wait (try again later)"), keep_alive);
    computing_ = true;
    job_ = job;
    watch();
  }

  // A client that has closed its end wants no answer. It is asked for now and then: what it sent before may
  // wait to be read, so that the end cannot be.
  void watch() {
    timer_.expires_after(kLookAtClient);
    timer_.async_wait([self = shared_from_this(), turn = ++turn_](const error_code& error) {
      const auto job = self->job_.lock();
      if (error || turn != self->turn_ || job == nullptr) return;
      pollfd end{self->socket_.native_handle(), POLLRDHUP, 0};
      if (::poll(&end, 1, 0) <= 0) return self->watch();
      job->left = true;
      job->stop = true;
    });
  }

  void respond(const HttpResponse& response, bool keep_alive) {
    if (!socket_.is_open()) return;
    keep_alive = keep_alive && !server_.ending_;
    writing_ = true;
    message_ = message_of(response, keep_alive);
    if (is_head_) message_.body().clear();
    arm(limits_.write);
    http::async_write(socket_, message_,
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
  http::response<http::string_body> message_;
  std::weak_ptr<Job> job_;  // which holds this until it is answered
  std::array<char, 4096> rest_{};
  std::uint64_t turn_ = 0;  // of the timer
  std::chrono::steady_clock::time_point idle_since_ = std::chrono::steady_clock::now();
  bool is_admitted_ = false;  // some request of it was not refused
  bool timed_out_ = false, reading_ = false, computing_ = false, writing_ = false, is_head_ = false;
};

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
    if (ending_ || error == asio::error::operation_aborted) return;
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
  std::size_t open = 0;
  Connection* first = nullptr;  // to give way
  for (Connection* connection : connections_) {
    open += connection->is_open();
    if (connection == &newest || !connection->may_give_way()) continue;
    if (first == nullptr || connection->claim() < first->claim()) first = connection;
  }
  if (open <= options_.limits.connections) return true;
  if (first == nullptr) return false;
  first->close();
  return true;
}

void HttpServer::State::look_at(const std::atomic<bool>& stop) {
  if (stop) return end();
  look_.expires_after(kLookAtStop);
  look_.async_wait([this, &stop](const error_code&) { look_at(stop); });
}

// Cancels what is under way, and gives its answers a moment to leave.
void HttpServer::State::end() {
  ending_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (current_) current_->stop = true;
    for (const auto& job : jobs_) job->stop = true;
  }
  wake_.notify_all();
  look_.expires_after(kLastAnswers);
  look_.async_wait([this](const error_code& error) {
    if (!error) io_.stop();
  });
  for (Connection* connection : connections_) {
    if (!connection->is_busy()) connection->close();
  }
}

bool HttpServer::State::enqueue(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() >= options_.limits.waiting) return false;
    job->stop = stopped_;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

HttpResponse HttpServer::State::answer(Job& job) const {
  const auto stopping = [&] {
    return job.left ? error_response(400, "canceled: the client closed its end of the connection")
                    : error_response(503, "canceled: the server stops");
  };
  if (job.stop) return stopping();
  try {
    return compute_(job.request, job.stop);
  } catch (const Canceled&) {
    return stopping();
  } catch (const std::bad_alloc&) {
    return error_response(500, "memory: not enough for this text (choose a shorter one)");
  } catch (const std::exception& error) {
    return error_response(500, error.what());
  }
}

void HttpServer::State::work() {
  while (true) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
      if (jobs_.empty()) break;
      job = current_ = std::move(jobs_.front());
      jobs_.pop_front();
    }
    HttpResponse response = answer(*job);
    // Only the handler holds the connection from here on: connections end on the network's thread.
    asio::post(io_, [done = std::move(job->done), response = std::move(response)]() mutable {
      done(std::move(response));
    });
    const std::lock_guard lock(mutex_);
    current_.reset();
  }
  asio::post(io_, [this] {  // behind the last answers
    look_.expires_after(kLookAtStop);
    look_.async_wait([this](const error_code& error) {
      if (!error) io_.stop();
    });
  });
}

void HttpServer::State::run(const std::atomic<bool>& stop) {
  std::thread worker([this] { work(); });
  accept();
  look_at(stop);
  io_.run();
  worker.join();
}

HttpServer::HttpServer(const ServerOptions& options, AtOnce at_once, Compute compute)
    : state_(std::make_unique<State>(options, std::move(at_once), std::move(compute))) {}
HttpServer::~HttpServer() = default;
std::uint16_t HttpServer::port() const { return state_->endpoint().port(); }
bool HttpServer::is_loopback() const { return state_->endpoint().address().is_loopback(); }
void HttpServer::run(const std::atomic<bool>& stop) { state_->run(stop); }

HttpResponse error_response(int status, const std::string& message) {
  return {status, json_text(nlohmann::json{{"error", message}})};
}

}  // namespace heed::server
