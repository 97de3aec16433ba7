// signvote certs

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/files.h"
#include "certs/authority.h"
#include "certs/certificates.h"
#include "cli/commands.h"

namespace signvote::cli {
namespace {

struct CertsFlags {
  std::filesystem::path folder{};
  std::vector<std::string> hosts{};  // of the server
  std::vector<std::string> names{};  // of the workers
  int ca_days = 3650;
  int days = 825;
};

void print_written(const CertsFlags& flags, const std::string& name, const std::string& what) {
  fmt::print("{} and {}: {}\n", (flags.folder / (name + ".pem")).string(),
             (flags.folder / (name + ".key")).string(), what);
}

int new_ca(const CertsFlags& flags) {
  make_ca(flags.folder, flags.ca_days);
  print_written(
      flags, "ca",
      fmt::format("an authority for {} days; give the .pem to everybody, the .key to nobody", flags.ca_days));
  return 0;
}

int server(const CertsFlags& flags) {
  make_server_certificate(flags.folder, flags.hosts, flags.days);
  print_written(flags, "server",
                fmt::format("the server's, for {} days, as {}", flags.days, fmt::join(flags.hosts, ", ")));
  return 0;
}

int worker(const CertsFlags& flags) {
  for (const std::string& name : flags.names) {
    make_worker_certificate(flags.folder, name, flags.days);
    const auto owner = identity(read_text_file(flags.folder / (name + ".pem")));
    print_written(flags, name,
                  fmt::format("the worker {}'s, for {} days; its key is {}", name, flags.days, owner->key));
  }
  return 0;
}

}  // namespace

void add_certs(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<CertsFlags>();
  CLI::App* certs = app.add_subcommand("certs", "Make certificates for a server and its workers");
  certs->require_subcommand(1);
  certs->footer(
      "Examples:\n  signvote certs new-ca ~/signvote-certs\n"
      "  signvote certs server ~/signvote-certs --host vote.example.org --host 192.0.2.7\n"
      "  signvote certs worker ~/signvote-certs --name ann --name bob\n\n"
      "A worker gets ca.pem and its own .pem and .key; ca.key stays where it was made.");
  const auto add = [&](const std::string& name, const std::string& help, const std::string& folder_help,
                       int& days, int (*make)(const CertsFlags&)) {
    CLI::App* command = certs->add_subcommand(name, help);
    command->add_option("folder", flags->folder, folder_help)->required()->type_name("DIR");
    command->add_option("--days", days, fmt::format("Days for which it is valid [{}]", days))
        ->check(CLI::Range(1, 36500).description(""))
        ->type_name("NUMBER");
    command->callback([&action, flags, make] { action = [flags, make] { return make(*flags); }; });
    return command;
  };
  CLI::App* ca = add("new-ca", "Make an authority: ca.pem and ca.key",
                     "Folder to write to; made if it is not there", flags->ca_days, new_ca);
  ca->footer(
      "Examples:\n  signvote certs new-ca ~/signvote-certs\n  signvote certs new-ca ~/signvote-certs --days "
      "30");
  CLI::App* of_server = add("server", "Make the server's certificate: server.pem and server.key",
                            "The folder of the authority", flags->days, server);
  of_server->footer(
      "Examples:\n  signvote certs server ~/signvote-certs --host localhost --host 127.0.0.1\n"
      "  signvote certs server ~/signvote-certs --host vote.example.org --days 90");
  of_server->add_option("--host", flags->hosts, "A name or address that workers connect to; may be repeated")
      ->required()
      ->type_name("HOST");
  CLI::App* of_worker = add("worker", "Make workers' certificates: NAME.pem and NAME.key",
                            "The folder of the authority", flags->days, worker);
  of_worker->footer(
      "Examples:\n  signvote certs worker ~/signvote-certs --name ann\n  signvote certs worker "
      "~/signvote-certs --name ann "
      "--name bob");
  of_worker
      ->add_option("--name", flags->names, "The name by which the server knows the worker; may be repeated")
      ->required()
      ->type_name("NAME");
}

}  // namespace signvote::cli
