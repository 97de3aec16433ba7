#include "report/dashboard.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/files.h"
#include "report/dashboard_assets.h"
#include "signvote/error.h"

namespace signvote {
namespace {

constexpr std::chrono::seconds kLook{1};
constexpr double kLastNews = 2;  // seconds for pages to fetch the last news
constexpr std::size_t kTokenBytes = 24;

std::string new_token() {
  std::array<unsigned char, kTokenBytes> bytes{};
  if (::getentropy(bytes.data(), bytes.size()) != 0)
    throw Error(fmt::format("cannot draw the dashboard's token: {}", std::strerror(errno)));
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

/// That of the run's earlier programs, so that a page that is open stays let in.
std::string kept_token(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kDashboardLink;
  if (!std::filesystem::exists(file)) return "";
  const std::string link = read_text_file(file);
  const std::size_t at = link.find("token=");
  if (at == std::string::npos) return "";
  const std::string token = link.substr(at + 6, 2 * kTokenBytes);
  const bool is_hex = std::ranges::all_of(token, [](unsigned char c) { return std::isxdigit(c) != 0; });
  return token.size() == 2 * kTokenBytes && is_hex ? token : "";
}

/// The page takes everything from here, and nobody may frame it. uPlot sets styles by scripts, which
/// style-src does not forbid.
HttpAnswer secured(HttpAnswer answer) {
  answer.headers.insert(
      answer.headers.end(),
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"},
       {"Referrer-Policy", "no-referrer"},
       {"Cross-Origin-Resource-Policy", "same-origin"},
       {"Cross-Origin-Opener-Policy", "same-origin"},
       {"Cache-Control", "no-store"}});
  return answer;
}

/// Who listens on all addresses is reached by the machine's name.
std::string name_in_link(const std::string& host) {
  if (host == "0.0.0.0" || host == "::") {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
  }
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

const Asset* find_asset(std::string_view path) {
  const auto assets = dashboard_assets();
  const auto found = std::ranges::find(assets, path, &Asset::path);
  return found == assets.end() ? nullptr : &*found;
}

HttpAnswer answer_with(unsigned status, const Asset& asset) {
  return {status, std::string(asset.content), std::string(asset.type)};
}

}  // namespace

bool is_same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char differs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differs = differs | static_cast<unsigned char>(a[i] ^ b[i]);
  return differs == 0;
}

bool names_loopback(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos)
    host = host.substr(0, colon);
  if (host == "localhost" || host == "[::1]") return true;
  const auto in_a_number = [](char c) { return c == '.' || (c >= '0' && c <= '9'); };
  return host.starts_with("127.") && std::ranges::count(host, '.') == 3 &&
         std::ranges::all_of(host, in_a_number);
}

Dashboard::Dashboard(const DashboardOptions& options, DashboardState& state)
    : folder_(options.folder), loopback_(options.loopback), state_(state) {
  if (dashboard_assets().empty())
    throw ConfigError(
        "this signvote was built without the dashboard; leave --dashboard out, or build it with "
        "-DSIGNVOTE_DASHBOARD=ON");
  if (!loopback_) {
    token_ = kept_token(folder_);
    if (token_.empty()) token_ = new_token();
  }
  HttpOptions http;
  http.host = options.host;
  http.port = options.port;
  http.what = "the dashboard";
  http.flag = "--dashboard HOST:PORT (port 0 takes a free one)";
  http.certificate = options.certificate;
  http.key = options.key;
  http.limits = options.limits;
  publish();  // before anybody can ask
  server_.emplace(http, [this](const HttpRequest& request) { return secured(answer(request)); });
  address_ = fmt::format("{}://{}:{}/", options.certificate.empty() ? "http" : "https",
                         name_in_link(options.host), port());
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "dashboard");  // for those who look where the time goes
    look_again_and_again();
  });
}

Dashboard::~Dashboard() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
  thread_.join();
  publish();
  events_.wait_until_read(kLastNews);
  events_.close();
  server_.reset();
}

void Dashboard::write_link() const {
  const std::string link = address_ + (token_.empty() ? "" : "?token=" + token_);
  write_file_atomically(folder_ / kDashboardLink, link + "\n", Access::owner);
}

void Dashboard::look_again_and_again() {
  std::unique_lock lock(mutex_);
  while (!wakes_.wait_for(lock, kLook, [this] { return ends_; })) publish();
}

void Dashboard::publish() {
  events_.publish(state_.news(std::chrono::system_clock::now()), [this] { return state_.whole(); });
}

/// Cookies do not know ports, and there may be several dashboards on a machine.
std::string Dashboard::cookie() const { return fmt::format("signvote_{}", port()); }

/// The answer to those who may not look.
std::optional<HttpAnswer> Dashboard::stop_strangers(const HttpRequest& request) const {
  if (loopback_) {
    if (names_loopback(request.header("Host"))) return std::nullopt;
    return HttpAnswer{403, "the dashboard answers to localhost, 127.0.0.1 and [::1] only\n"};
  }
  if (const std::string given = request.argument("token"); !given.empty() && request.path == "/") {
    if (!is_same_secret(given, token_)) return answer_with(401, *find_asset("/token.html"));
    HttpAnswer welcome{303, ""};
    welcome.headers = {
        {"Location", "/"},
        {"Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; Secure; SameSite=Lax", cookie(), token_)}};
    return welcome;
  }
  if (is_same_secret(request.cookie(cookie().c_str()), token_)) return std::nullopt;
  if (request.path == "/dashboard.css" || request.path == "/icon.svg") return std::nullopt;
  if (request.path == "/") return answer_with(401, *find_asset("/token.html"));
  return HttpAnswer{401, "this needs the token of the link in dashboard.url, in the run's folder\n"};
}

HttpAnswer Dashboard::answer(const HttpRequest& request) {
  if (auto stopped = stop_strangers(request)) return *stopped;
  if (request.is_get) {
    if (request.path == "/events") return {200, "", "text/event-stream", {}, &events_};
    if (const Asset* asset = find_asset(request.path == "/" ? "/index.html" : request.path))
      return answer_with(200, *asset);
  }
  return {404, "there is GET / here\n"};
}

}  // namespace signvote
