// The dashboard's HTTP side: its files, its events, and whom it lets in.
#include "report/dashboard.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "report/dashboard_assets.h"
#include "signvote/error.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

class Page : public testing::Test {
 protected:
  Page()
      : state_(run(), attendance_),
        folder_(fs::temp_directory_path() / fs::path("signvote-dashboard-XXXXXX")) {
    std::string name = folder_.string();
    folder_ = ::mkdtemp(name.data());
    if (dashboard_assets().empty()) skip_ = true;
  }
  ~Page() override { fs::remove_all(folder_); }
  void SetUp() override {
    if (skip_) GTEST_SKIP() << "built without the dashboard";
  }

  static DashboardRun run() {
    DashboardRun run;
    run.title = "a run";
    run.workers = 1;
    run.rounds = 10;
    return run;
  }
  DashboardOptions options() const {
    DashboardOptions made;
    made.folder = folder_;
    return made;
  }
  /// As it listens where others can reach it, but on this machine's own address.
  DashboardOptions open_to_others() const {
    DashboardOptions made = options();
    made.loopback = false;
    return made;
  }
  static std::unique_ptr<httplib::Client> client(const Dashboard& dashboard) {
    auto made = std::make_unique<httplib::Client>("127.0.0.1", dashboard.port());
    made->set_read_timeout(120);
    made->set_write_timeout(120);
    return made;
  }
  static int status(const Dashboard& dashboard, const std::string& path,
                    const httplib::Headers& headers = {}) {
    const auto answer = client(dashboard)->Get(path, headers);
    return answer ? answer->status : 0;
  }
  /// Reads events until one holds `text`.
  static bool hears(const Dashboard& dashboard, const std::string& text,
                    const std::function<void()>& meanwhile = {}) {
    std::string all;
    bool begun = false;
    client(dashboard)->Get("/events", [&](const char* data, std::size_t size) {
      all.append(data, size);
      if (!std::exchange(begun, true) && meanwhile) meanwhile();
      return all.find(text) == std::string::npos;
    });
    return all.find(text) != std::string::npos;
  }

  Attendance attendance_;
  DashboardState state_;
  fs::path folder_;
  bool skip_ = false;
};

TEST_F(Page, has_its_files_and_nothing_from_elsewhere) {
  const Dashboard dashboard(options(), state_);
  const auto page = client(dashboard)->Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  const std::string policy = page->get_header_value("Content-Security-Policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(page->get_header_value("Referrer-Policy"), "no-referrer");
  for (const Asset& asset : dashboard_assets()) {
    const auto answer = client(dashboard)->Get(std::string(asset.path));
    ASSERT_TRUE(answer) << asset.path;
    EXPECT_EQ(answer->status, 200) << asset.path;
    EXPECT_EQ(answer->body, asset.content) << asset.path;
    EXPECT_EQ(answer->get_header_value("Content-Type"), asset.type) << asset.path;
    // uPlot names its home in a comment, and SVG its namespace.
    if (asset.path.starts_with("/uplot")) continue;
    std::string text(asset.content);
    for (std::size_t at = 0; (at = text.find("http", at)) != std::string::npos; ++at)
      EXPECT_EQ(text.substr(at, 18), "http://www.w3.org/") << asset.path;
  }
  for (const char* path : {"/metrics", "/index.htm", "/../etc/passwd", "//"})
    EXPECT_EQ(status(dashboard, path), 404) << path;
  const auto post = client(dashboard)->Post("/", "x", "text/plain");
  ASSERT_TRUE(post);
  EXPECT_EQ(post->status, 404);
}

TEST_F(Page, who_comes_gets_everything_and_then_the_news) {
  Dashboard dashboard(options(), state_);
  EXPECT_TRUE(hears(dashboard, "event: whole"));
  const auto change = [&] { state_.add_test({7, 0.5, 1.0}); };
  EXPECT_TRUE(hears(dashboard, "\"numbers\":[7,0.5,1.0]", change));
}

TEST_F(Page, the_last_news_is_that_the_run_is_over) {
  std::future<bool> heard;
  {
    Dashboard dashboard(options(), state_);
    std::promise<void> listens;
    heard = std::async(std::launch::async, [&] {
      return hears(dashboard, "\"phase\":\"finished\"", [&] { listens.set_value(); });
    });
    ASSERT_EQ(listens.get_future().wait_for(std::chrono::minutes(5)), std::future_status::ready);
    state_.end("finished");
  }
  EXPECT_TRUE(heard.get());
}

TEST_F(Page, serves_many_pages_and_slow_ones_at_once) {
  DashboardOptions few = options();
  few.limits.connections = 4;
  Dashboard dashboard(few, state_);
  std::vector<std::future<bool>> heard;
  for (int i = 0; i < 12; ++i)
    heard.push_back(std::async(std::launch::async, [&] { return hears(dashboard, "event: "); }));
  for (int i = 0; i < 12; ++i) heard[i].wait();
  EXPECT_EQ(status(dashboard, "/"), 200) << "after more pages than there is room for";
}

TEST_F(Page, answers_to_names_of_this_machine_only) {
  const Dashboard dashboard(options(), state_);
  EXPECT_EQ(status(dashboard, "/", {{"Host", "localhost:1"}}), 200);
  for (const char* host :
       {"evil.example", "localhost.evil.example:7080", "127.0.0.1.evil.example", "192.0.2.1"})
    for (const char* path : {"/", "/events", "/dashboard.js"})
      EXPECT_EQ(status(dashboard, path, {{"Host", host}}), 403) << host << path;
}

TEST(Host, names_loopback_or_not) {
  for (const char* host :
       {"localhost", "localhost:7080", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]", "[::1]:80"})
    EXPECT_TRUE(names_loopback(host)) << host;
  for (const char* host : {"", ":80", "example.org", "127.0.0.1.example.org", "127.evil", "::2", "[::2]:80",
                           "localhost.", "xlocalhost", "128.0.0.1", "[::1].evil"})
    EXPECT_FALSE(names_loopback(host)) << host;
}

TEST(Secrets, are_compared_whole) {
  EXPECT_TRUE(is_same_secret("abc", "abc"));
  EXPECT_TRUE(is_same_secret("", ""));
  for (const char* other : {"", "ab", "abd", "abcd", "bbc", "ABC"})
    EXPECT_FALSE(is_same_secret("abc", other));
}

TEST_F(Page, others_need_the_token) {
  const Dashboard dashboard(open_to_others(), state_);
  ASSERT_EQ(dashboard.token().size(), 48U);
  for (const char* path :
       {"/", "/?token=", "/?token=0", "/?token=%00", "/events", "/dashboard.js", "/uplot.js"})
    EXPECT_EQ(status(dashboard, path), 401) << path;
  const auto gate = client(dashboard)->Get("/");
  EXPECT_NE(gate->body.find("<form"), std::string::npos);
  EXPECT_EQ(gate->body.find(dashboard.token()), std::string::npos);

  const auto welcome = client(dashboard)->Get("/?token=" + dashboard.token());
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->status, 303);
  EXPECT_EQ(welcome->get_header_value("Location"), "/") << "the token leaves the address bar";
  const std::string cookie = welcome->get_header_value("Set-Cookie");
  for (const char* part : {"HttpOnly", "Secure", "SameSite=Lax"})
    EXPECT_NE(cookie.find(part), std::string::npos);
  const std::string pair = cookie.substr(0, cookie.find(';'));
  for (const char* path : {"/", "/dashboard.js"})
    EXPECT_EQ(status(dashboard, path, {{"Cookie", pair}}), 200) << path;
  std::string wrong = pair;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  EXPECT_EQ(status(dashboard, "/", {{"Cookie", wrong}}), 401);
}

TEST_F(Page, the_token_outlives_the_program_but_not_another_folder) {
  std::string token;
  {
    const Dashboard dashboard(open_to_others(), state_);
    dashboard.write_link();
    token = dashboard.token();
    const fs::path file = folder_ / kDashboardLink;
    EXPECT_EQ(read_text_file(file), dashboard.address() + "?token=" + token + "\n");
    EXPECT_EQ(fs::status(file).permissions() & fs::perms::all,
              fs::perms::owner_read | fs::perms::owner_write);
  }
  EXPECT_EQ(Dashboard(open_to_others(), state_).token(), token);
  for (const char* damaged : {"", "https://x/?token=abc\n", "https://x/?token=zz"}) {
    std::ofstream(folder_ / kDashboardLink) << damaged;
    const Dashboard dashboard(open_to_others(), state_);
    EXPECT_EQ(dashboard.token().size(), 48U);
    EXPECT_NE(dashboard.token(), token);
  }
}

TEST_F(Page, loopback_needs_no_token) {
  const Dashboard dashboard(options(), state_);
  EXPECT_EQ(dashboard.token(), "");
  dashboard.write_link();
  EXPECT_EQ(read_text_file(folder_ / kDashboardLink), dashboard.address() + "\n");
}

TEST_F(Page, says_that_its_port_is_taken) {
  const Dashboard dashboard(options(), state_);
  DashboardOptions same = options();
  same.port = dashboard.port();
  try {
    const Dashboard second(same, state_);
    ADD_FAILURE() << "two on one port";
  } catch (const EngineError& error) {
    EXPECT_NE(std::string(error.what()).find("--dashboard"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace signvote
