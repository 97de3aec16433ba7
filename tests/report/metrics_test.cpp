// Prometheus' text, and the address to fetch it from.
#include "report/metrics.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "signvote/error.h"

namespace signvote {
namespace {

TEST(Metrics, are_prometheus_text) {
  Metrics metrics;
  metrics.declare("unused_total", Metrics::Kind::counter, "Nobody counts it");
  metrics.declare("round", Metrics::Kind::gauge, "Rounds so far");
  metrics.declare("accuracy", Metrics::Kind::gauge, "Of the last test, of which there was none");
  metrics.declare("ballots_total", Metrics::Kind::counter, "By what became of them");
  metrics.set("round", 7);
  metrics.set("round", 3);
  metrics.add("ballots_total", 1, "result=\"late\"");
  metrics.add("ballots_total", 1, "result=\"counted\"");
  metrics.add("ballots_total", 2, "result=\"counted\"");
  EXPECT_EQ(metrics.text(),
            "# HELP accuracy Of the last test, of which there was none\n"
            "# TYPE accuracy gauge\n"
            "# HELP ballots_total By what became of them\n"
            "# TYPE ballots_total counter\n"
            "ballots_total{result=\"counted\"} 3\n"
            "ballots_total{result=\"late\"} 1\n"
            "# HELP round Rounds so far\n"
            "# TYPE round gauge\n"
            "round 3\n"
            "# HELP unused_total Nobody counts it\n"
            "# TYPE unused_total counter\n"
            "unused_total 0\n");
  EXPECT_EQ(Metrics().text(), "");
}

TEST(Metrics, show_numbers_exactly) {
  Metrics metrics;
  metrics.declare("x", Metrics::Kind::gauge, "");
  for (const double value : {0.0, -1.0, 0.1, 1e15 + 1, 123456789.0, 1e300, 1e-300}) {
    metrics.set("x", value);
    const std::string text = metrics.text();
    EXPECT_EQ(std::stod(text.substr(text.rfind(' '))), value) << text;
  }
}

TEST(Metrics, labels_are_escaped) {
  EXPECT_EQ(escape_label("worker-0"), "worker-0");
  EXPECT_EQ(escape_label(R"(a"b\c)"), R"(a\"b\\c)");
  EXPECT_EQ(escape_label("a\nb"), "a\\nb");
  EXPECT_EQ(escape_label("café"), "café");
  EXPECT_EQ(escape_label(""), "");
}

TEST(Metrics, are_changed_by_many_at_once) {
  Metrics metrics;
  metrics.declare("count", Metrics::Kind::counter, "");
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) metrics.add("count");
        metrics.text();
      });
  }
  EXPECT_NE(metrics.text().find("\ncount 4000\n"), std::string::npos);
}

class Endpoint : public testing::Test {
 protected:
  Endpoint() { metrics_.declare("rounds_total", Metrics::Kind::counter, "Rounds"); }
  /// With the patience that a busy machine may need.
  static std::unique_ptr<httplib::Client> client(const MetricsEndpoint& endpoint) {
    auto made = std::make_unique<httplib::Client>("127.0.0.1", endpoint.port());
    made->set_read_timeout(120);
    made->set_write_timeout(120);
    return made;
  }
  httplib::Result get(const MetricsEndpoint& endpoint, const std::string& path) {
    return client(endpoint)->Get(path);
  }
  Metrics metrics_;
};

TEST_F(Endpoint, has_the_metrics_of_now) {
  const MetricsEndpoint endpoint(0, metrics_, [] { return std::string(); });
  ASSERT_GT(endpoint.port(), 0);
  for (int rounds = 0; rounds < 3; ++rounds) {
    const auto answer = get(endpoint, "/metrics");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->get_header_value("Content-Type").find("text/plain; version=0.0.4"), 0U);
    EXPECT_EQ(answer->body, metrics_.text());
    EXPECT_NE(answer->body.find("rounds_total " + std::to_string(rounds) + "\n"), std::string::npos);
    metrics_.add("rounds_total");
  }
}

TEST_F(Endpoint, tells_how_it_is) {
  std::string problem;
  const MetricsEndpoint endpoint(0, metrics_, [&] { return problem; });
  auto answer = get(endpoint, "/healthz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "ok\n");
  problem = "the disk is full";
  answer = get(endpoint, "/healthz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->body, "the disk is full\n");
}

TEST_F(Endpoint, has_nothing_else) {
  const MetricsEndpoint endpoint(0, metrics_, [] { return std::string(); });
  for (const char* path : {"/", "/metric", "/metrics/", "/healthz/x", "/../etc/passwd"}) {
    const auto answer = get(endpoint, path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 404) << path;
  }
  const auto answer = client(endpoint)->Post("/metrics", "rounds_total 5", "text/plain");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 404);
}

/// A client that does what it likes with its connection.
class Rude {
 public:
  explicit Rude(const MetricsEndpoint& endpoint) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(endpoint.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Rude() {
    if (socket_ >= 0) ::close(socket_);
  }
  Rude(Rude&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Rude& operator=(Rude&&) = delete;

  /// False if the other side has closed the connection.
  bool send(const std::string& text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) >= 0;
  }
  bool is_open() const {
    char byte = 0;
    return ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  /// All that comes until the connection ends.
  std::string rest() const {
    std::string all;
    char buffer[4096];
    while (true) {
      const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0) return all;
      all.append(buffer, static_cast<std::size_t>(count));
    }
  }

 private:
  int socket_;
};

constexpr unsigned kNever = 0;

TEST_F(Endpoint, answers_beside_idle_connections) {
  const MetricsEndpoint endpoint(0, metrics_, [] { return std::string(); }, {.idle_seconds = kNever});
  std::vector<Rude> idle;
  for (int i = 0; i < 40; ++i) idle.emplace_back(endpoint);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(idle[i].send("GET /heal"));
  ASSERT_TRUE(get(endpoint, "/healthz"));
  // They need not end before others are served, and may still go on.
  for (const Rude& client : idle) EXPECT_TRUE(client.is_open());
  EXPECT_TRUE(idle[0].send("thz HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(idle[0].rest().find("HTTP/1.1 200 OK\r\n"), 0U);
}

TEST_F(Endpoint, closes_the_oldest_of_too_many_connections) {
  const MetricsEndpoint endpoint(0, metrics_, [] { return std::string(); },
                                 {.connections = 3, .idle_seconds = kNever});
  std::vector<Rude> idle;
  for (int i = 0; i < 10; ++i) idle.emplace_back(endpoint);
  ASSERT_TRUE(get(endpoint, "/healthz"));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(idle[i].rest(), "") << i;
  for (int i = 8; i < 10; ++i) EXPECT_TRUE(idle[i].is_open()) << i;
}

TEST_F(Endpoint, a_connection_ends_when_its_time_is_up) {
  const MetricsEndpoint endpoint(0, metrics_, [] { return std::string(); }, {.idle_seconds = 1});
  const Rude silent(endpoint);
  const Rude slow(endpoint);
  slow.send("GET /healthz HTTP/1.1\r\nA: b\r\n");
  EXPECT_EQ(silent.rest(), "");
  EXPECT_EQ(slow.rest(), "");
}

TEST_F(Endpoint, takes_no_body_and_no_endless_header) {
  const MetricsEndpoint endpoint(0, metrics_, [] { return std::string(); }, {.idle_seconds = kNever});
  const std::string megabyte(1 << 20, 'x');
  const auto takes = [&megabyte](const Rude& client) {  // in megabytes; the sockets' own buffers hold some
    int taken = 0;
    while (taken < 256 && client.send(megabyte)) ++taken;
    return taken;
  };
  const Rude poster(endpoint);
  ASSERT_TRUE(poster.send("POST /metrics HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n"));
  EXPECT_LT(takes(poster), 256);
  const Rude chunked(endpoint);
  ASSERT_TRUE(chunked.send("POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n"));
  EXPECT_LT(takes(chunked), 256);
  const Rude talker(endpoint);
  ASSERT_TRUE(talker.send("GET /metrics HTTP/1.1\r\n"));
  int lines = 0;
  while (lines < 1'000'000 && talker.send("A: " + std::string(200, 'b') + "\r\n")) ++lines;
  EXPECT_LT(lines, 1'000'000);
  // Whoever listens is told.
  const Rude long_winded(endpoint);
  ASSERT_TRUE(long_winded.send("GET /metrics HTTP/1.1\r\nA: " + std::string(20'000, 'b')));
  EXPECT_EQ(long_winded.rest().find("HTTP/1.1 431 "), 0U);
  ASSERT_TRUE(get(endpoint, "/metrics"));
}

TEST_F(Endpoint, what_is_no_request_is_answered_or_closed) {
  const MetricsEndpoint endpoint(0, metrics_, [] { return std::string(); });
  for (const std::string text : {"GET\r\n\r\n", "GET  \r\n\r\n", "\x16\x03\x01\r\n\r\n"}) {
    const Rude client(endpoint);
    ASSERT_TRUE(client.send(text));
    const std::string answer = client.rest();
    EXPECT_TRUE(answer.empty() || answer.find(" 400 ") != std::string::npos) << text << answer;
  }
  const Rude head(endpoint);
  ASSERT_TRUE(head.send("HEAD /healthz?verbose HTTP/1.0\r\n\r\n"));
  const std::string answer = head.rest();
  EXPECT_NE(answer.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_EQ(answer.substr(answer.size() - 4), "\r\n\r\n") << "no body";
}

TEST_F(Endpoint, does_not_share_a_port) {
  const auto healthy = [] { return std::string(); };
  bool free_at_once = false;
  for (int i = 0; i < 5 && !free_at_once; ++i) {  // others on this machine may be given the port then
    int port = 0;
    {
      const MetricsEndpoint first(0, metrics_, healthy);
      port = first.port();
      try {
        const MetricsEndpoint second(port, metrics_, healthy);
        ADD_FAILURE() << "two on one port";
      } catch (const EngineError& error) {
        EXPECT_NE(std::string(error.what()).find("127.0.0.1:" + std::to_string(port)), std::string::npos);
        EXPECT_NE(std::string(error.what()).find("in use"), std::string::npos);
      }
      EXPECT_TRUE(get(first, "/healthz"));
    }
    try {
      const MetricsEndpoint again(port, metrics_, healthy);
      free_at_once = true;
      EXPECT_EQ(again.port(), port);
      EXPECT_TRUE(get(again, "/healthz"));
    } catch (const EngineError&) {
    }
  }
  EXPECT_TRUE(free_at_once);
}

TEST_F(Endpoint, can_go_before_it_has_begun) {
  for (int i = 0; i < 20; ++i) const MetricsEndpoint endpoint(0, metrics_, [] { return std::string(); });
}

}  // namespace
}  // namespace signvote
