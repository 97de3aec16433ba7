// signvote journal

#include "journal/journal.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/values.h"
#include "run/audit.h"
#include "run/backup.h"

namespace signvote::cli {
namespace {

namespace fs = std::filesystem;

struct JournalFlags {
  fs::path state{};
  std::string round{};
  std::string out{};
  bool json = false;

  fs::path journal() const { return state / "journal"; }

  ModelCommand read_model() const {
    const auto rounds = round.empty() ? std::nullopt : std::optional(parse_whole("--round", round));
    return {load_server_run(state), journal(), rounds, out};
  }
};

int show(const fs::path& of, const Audit& audit) {
  for (const std::string& line : audit.remarks) fmt::print("{}\n", line);
  fmt::print(
      "{}: {}; verdicts of rounds {} to {} are whole, {} decided again to the same verdict\nmodel "
      "sha256    {}\n",
      of.string(), counted(audit.rounds, "round"), audit.oldest + 1, audit.rounds, audit.decided,
      audit.model_sha256);
  return 0;
}

int verify(const JournalFlags& flags) {
  return show(flags.state, audit_journal(load_server_run(flags.state), flags.journal()));
}

int list(const JournalFlags& flags) {
  load_server_run(flags.state);
  std::vector<std::string> remarks;
  const Journal journal(flags.journal(), Journal::Mode::read_only,
                        [&remarks](const std::string& line) { remarks.push_back(line); });
  if (flags.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Journal::File& file : journal.files())
      rows.push_back({{"file", file.name},
                      {"kind", file.kind},
                      {"first", file.first},
                      {"last", file.last},
                      {"bytes", file.bytes}});
    const nlohmann::ordered_json all = {
        {"rounds", journal.rounds()}, {"oldest", journal.oldest()}, {"files", rows}, {"remarks", remarks}};
    fmt::print("{}\n", all.dump(2));
    return 0;
  }
  for (const std::string& line : remarks) fmt::print("{}\n", line);
  fmt::print("{:<10}{:>10}{:>10}{:>14}  {}\n", "kind", "from", "to", "bytes", "file");
  for (const Journal::File& file : journal.files())
    fmt::print("{:<10}{:>10}{:>10}{:>14}  {}\n", file.kind, file.first, file.last, file.bytes, file.name);
  fmt::print("{}; models of rounds {} to {} can be had\n", counted(journal.rounds(), "round"),
             journal.oldest(), journal.rounds());
  return 0;
}

}  // namespace

void add_journal(CLI::App& app, const Computing& computing, Action& action) {
  const auto flags = std::make_shared<JournalFlags>();
  CLI::App* journal = app.add_subcommand("journal", "Look into a server's journal");
  journal->require_subcommand(1);
  journal->footer(
      "The folder may stand before the subcommand or after it.\n\n"
      "Examples:\n  signvote journal runs/elastic verify\n  signvote journal runs/elastic list --json\n"
      "  signvote journal runs/elastic model --round 120 --out model-120.pt\n"
      "  signvote journal runs/elastic backup --out elastic.tar\n"
      "  signvote journal elastic.tar restore --out runs/again");
  // Not required as CLI11 means it, which would take a subcommand that stands first for the folder.
  journal->add_option("folder", flags->state, "The server's --state; a backup to restore from")
      ->type_name("DIR");
  journal->final_callback([flags] {
    if (flags->state.empty()) throw CLI::RequiredError("folder");
  });
  CLI::App* verify_command = journal->add_subcommand(
      "verify", "Check every byte, and decide again every round whose ballots are there");
  verify_command->callback([=, &action] { action = [flags] { return verify(*flags); }; });
  CLI::App* list_command = journal->add_subcommand("list", "List its files and their rounds");
  list_command->add_flag("--json", flags->json, "Print JSON instead of a table");
  list_command->callback([=, &action] { action = [flags] { return list(*flags); }; });
  CLI::App* model_command =
      journal->add_subcommand("model", "Write the model after any number of rounds to a file");
  model_command->add_option("--round", flags->round, "After how many rounds [all]")->type_name("NUMBER");
  model_command->add_option("--out", flags->out, "The file to write")->required()->type_name("MODEL.pt");
  model_command->callback([=, &computing, &action] {
    action = [flags, &computing] { return computing.model(flags->read_model()); };
  });
  CLI::App* backup_command =
      journal->add_subcommand("backup", "Write the run to one file and check it, also while the server runs");
  backup_command->add_option("--out", flags->out, "The file to write")->required()->type_name("FILE.tar");
  backup_command->callback(
      [=, &action] { action = [flags] { return show(flags->out, back_up(flags->state, flags->out)); }; });
  CLI::App* restore_command = journal->add_subcommand("restore", "Make a backup a server's --state again");
  restore_command->add_option("--out", flags->out, "The folder to make")->required()->type_name("DIR");
  for (CLI::App* command : journal->get_subcommands({}))
    command->fallthrough();  // so that the folder may follow: journal verify DIR
  restore_command->callback(
      [=, &action] { action = [flags] { return show(flags->out, restore(flags->state, flags->out)); }; });
}

}  // namespace signvote::cli
