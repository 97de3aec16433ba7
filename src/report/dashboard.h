// The dashboard: a page in the browser that shows a run while it goes on (docs/dashboard.md).
//
// On a loopback address anybody on this machine may look, and only by a name of this machine, so that no
// page from elsewhere can (DNS rebinding). On any other address it needs TLS, and whoever looks a token,
// which is in the link in DIR/dashboard.url. The page only shows: nothing of the run can be changed by it.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "report/dashboard_options.h"
#include "report/dashboard_state.h"
#include "report/http_server.h"

namespace signvote {

/// The file in a run's folder that has the link to its dashboard.
inline constexpr const char* kDashboardLink = "dashboard.url";

/// Whether the two are the same, in a time that does not tell where they differ.
bool is_same_secret(std::string_view a, std::string_view b);

/// Whether a Host header names this machine's loopback, whatever the port.
bool names_loopback(std::string_view host);

class Dashboard {
 public:
  /// Serves the page for as long as this lives. Throws EngineError if it cannot listen, and ConfigError if
  /// the program was built without it. `state` must outlive this.
  Dashboard(const DashboardOptions& options, DashboardState& state);
  /// Sends every page the last news first.
  ~Dashboard();

  /// Writes DIR/dashboard.url, when the folder is there.
  void write_link() const;
  /// Where the page is, without the token.
  const std::string& address() const { return address_; }
  int port() const { return server_->port(); }
  const std::string& token() const { return token_; }  // empty: none is needed

 private:
  HttpAnswer answer(const HttpRequest& request);
  std::optional<HttpAnswer> stop_strangers(const HttpRequest& request) const;
  std::string cookie() const;
  void look_again_and_again();
  void publish();

  const std::filesystem::path folder_;
  const bool loopback_;
  DashboardState& state_;
  std::string token_;
  EventStream events_;
  std::optional<HttpServer> server_;
  std::string address_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace signvote
