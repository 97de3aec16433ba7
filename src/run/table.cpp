#include "run/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "base/files.h"
#include "base/text.h"
#include "report/figure.h"
#include "run/cells.h"
#include "run/curves.h"
#include "run/run_files.h"

namespace signvote {
namespace {

constexpr double kTarget = 0.98;         // rounds to this accuracy are told
constexpr std::uint64_t kUnderWay = 50;  // rounds after which methods are compared test by test

/// What a cell has to show.
struct CellResult {
  std::uint64_t rounds = 0;            // done
  std::optional<double> last;          // accuracy
  std::optional<double> lowest;        // in the last quarter of the rounds
  std::optional<std::uint64_t> reach;  // the first test at kTarget or more
  nlohmann::json summary;              // null: not finished
};

CellResult result_of(const Cell& cell) {
  CellResult result;
  if (!cell.exists()) return result;
  result.rounds = cell.rounds_done();
  if (cell.finished()) result.summary = read_summary(cell.folder());
  for (const CellTest& test : tests_of(cell)) {
    result.last = test.accuracy;
    if (!result.reach && test.accuracy >= kTarget) result.reach = test.round;
    if (4 * test.round > 3 * cell.config.rounds)
      result.lowest = std::min(result.lowest.value_or(1), test.accuracy);
  }
  return result;
}

/// The mean of values, and how far it is known: half the 95 % interval by Student's t.
struct Estimate {
  double mean = 0;
  std::optional<double> half_interval;
};

Estimate estimate(const std::vector<double>& values) {
  constexpr std::array<double, 9> kStudent = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};
  const auto n = static_cast<double>(values.size());
  Estimate result{std::reduce(values.begin(), values.end()) / n, {}};
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  const std::size_t freedom = values.size() - 1;
  const double t = freedom <= kStudent.size() ? kStudent[freedom - 1] : 2.2;
  result.half_interval = t * std::sqrt(squares / (n - 1) / n);
  return result;
}

std::string shown(const std::vector<double>& values, double unit, const char* number) {
  if (values.empty()) return "–";
  const Estimate known = estimate(values);
  std::string text = fmt::format(fmt::runtime(number), unit * known.mean);
  if (known.half_interval) text += " ± " + fmt::format("{:.2f}", unit * *known.half_interval);
  return text;
}

class Table {
 public:
  Table(const TableOptions& options, const std::vector<Cell>& cells) : options_(options), cells_(cells) {
    for (const Cell& cell : cells) results_[cell.config.out] = result_of(cell);
  }

  /// One line for each cell.
  std::string csv() const {
    std::string text =
        "row,method,seed,rounds,rounds_done,test_accuracy,rounds_to_98,lowest_of_last_quarter,"
        "bits_per_parameter_up,bits_per_parameter_down,model_sha256\n";
    for (const Cell& cell : cells_) {
      const CellResult& result = results_.at(cell.config.out);
      const auto or_nothing = [](const auto& value) { return value ? fmt::format("{}", *value) : ""; };
      const auto of_summary = [&result](const char* key) {
        if (result.summary.is_null()) return std::string();
        const auto& value = result.summary.at(key);
        return value.is_string() ? value.get<std::string>() : fmt::format("{:.4f}", value.get<double>());
      };
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{}\n", cell.row, cell.method,
                     cell.config.seed, cell.config.rounds, result.rounds, or_nothing(result.last),
                     or_nothing(result.reach), or_nothing(result.lowest), of_summary("bits_per_parameter_up"),
                     of_summary("bits_per_parameter_down"), of_summary("model_sha256"));
    }
    return text;
  }

  std::string markdown() const {
    const std::string& baseline = options_.plan.methods.front().name;
    std::string text =
        fmt::format("# {}\n\nseeds {} to {}; mean ± half of the 95 % interval\n", options_.plan.title,
                    options_.base.seed, options_.base.seed + options_.seeds - 1);
    text += part("Test accuracy after the last round (%)", [&](const auto& row, const auto& method) {
      return shown(values(row, method, &CellResult::last), 100, "{:.2f}");
    });
    if (options_.plan.methods.size() > 1) {
      text += part(fmt::format("Lead over {}, seed by seed (points)", baseline),
                   [&](const auto& row, const auto& method) {
                     return method == baseline ? "" : lead(row, method, row, baseline);
                   });
      text +=
          part(fmt::format("The lowest mean lead over {} in a test from round {} on", baseline, kUnderWay),
               [&](const auto& row, const auto& method) { return lowest_lead(row, method); });
    }
    if (const std::string& first = options_.plan.rows.front().name; options_.plan.rows.size() > 1)
      text += part(fmt::format("Lead over {} with the same method, seed by seed (points)", first),
                   [&](const auto& row, const auto& method) {
                     return row == first ? "" : lead(row, method, first, method);
                   });
    text +=
        part("Lowest test of the last quarter, over all seeds (%)", [&](const auto& row, const auto& method) {
          const auto all = values(row, method, &CellResult::lowest);
          return all.empty() ? "–" : fmt::format("{:.2f}", 100 * *std::ranges::min_element(all));
        });
    text += part("Rounds to 98 %, seed by seed", [&](const auto& row, const auto& method) {
      std::vector<std::string> all;
      for (const Cell* cell : ended(row, method)) {
        const auto& reach = results_.at(cell->config.out).reach;
        all.push_back(reach ? std::to_string(*reach) : "never");
      }
      return fmt::format("{}", fmt::join(all, ", "));
    });
    text += part("Bits per parameter, up and down", [&](const auto& row, const auto& method) {
      const auto cells = ended(row, method);
      if (cells.empty()) return std::string("–");
      const auto& summary = results_.at(cells.front()->config.out).summary;
      return fmt::format("{:.2f}, {:.2f}", summary.at("bits_per_parameter_up").template get<double>(),
                         summary.at("bits_per_parameter_down").template get<double>());
    });
    std::string missing;
    for (const Cell& cell : cells_)
      if (const auto& result = results_.at(cell.config.out); result.summary.is_null())
        missing += fmt::format("- {}, {}, seed {}: {} of {}\n", cell.row, cell.method, cell.config.seed,
                               result.rounds, counted(cell.config.rounds, "round"));
    if (!missing.empty()) text += "\n## Not finished, and not in the tables above\n" + missing;
    return text;
  }

  Figure figure() const {
    Figure figure;
    figure.title = options_.plan.title;
    figure.baseline = options_.plan.methods.front().name;
    figure.panels_are = "row";
    figure.seeds = options_.seeds;
    for (const NamedSettings& row : options_.plan.rows) {
      Panel panel{row.name, row.name, {}, {}};
      const std::vector<const Cell*> baseline = ended(row.name, figure.baseline);
      for (const NamedSettings& method : options_.plan.methods) {
        const std::vector<const Cell*> seeds = ended(row.name, method.name);
        if (seeds.empty()) continue;
        panel.curves.push_back(curve_of(method.name, seeds));
        if (method.name != figure.baseline && !baseline.empty())
          panel.leads.push_back(lead_of(method.name, seeds, baseline));
      }
      if (!panel.curves.empty()) figure.panels.push_back(std::move(panel));
    }
    return figure;
  }

 private:
  std::string part(const std::string& title, const auto& content) const {
    std::string text = fmt::format("\n## {}\n| |", title);
    for (const NamedSettings& method : options_.plan.methods) text += fmt::format(" {} |", method.name);
    text += "\n|---|";
    for (std::size_t i = 0; i < options_.plan.methods.size(); ++i) text += "---|";
    text += '\n';
    for (const NamedSettings& row : options_.plan.rows) {
      text += fmt::format("| {} |", row.name);
      for (const NamedSettings& method : options_.plan.methods)
        text += fmt::format(" {} |", std::string(content(row.name, method.name)));
      text += '\n';
    }
    return text;
  }

  /// The finished cells.
  std::vector<const Cell*> ended(const std::string& row, const std::string& method) const {
    std::vector<const Cell*> found;
    for (const Cell& cell : cells_)
      if (cell.row == row && cell.method == method && !results_.at(cell.config.out).summary.is_null())
        found.push_back(&cell);
    return found;
  }

  std::vector<double> values(const std::string& row, const std::string& method,
                             std::optional<double> CellResult::*field) const {
    std::vector<double> found;
    for (const Cell* cell : ended(row, method))
      if (const auto& value = results_.at(cell->config.out).*field) found.push_back(*value);
    return found;
  }

  /// Of cells over others with the same seeds.
  std::string lead(const std::string& row, const std::string& method, const std::string& other_row,
                   const std::string& other_method) const {
    std::vector<double> leads;
    for (const Cell* cell : ended(row, method))
      for (const Cell* other : ended(other_row, other_method))
        if (other->config.seed == cell->config.seed)
          leads.push_back(*results_.at(cell->config.out).last - *results_.at(other->config.out).last);
    return shown(leads, 100, "{:+.2f}");
  }

  std::string lowest_lead(const std::string& row, const std::string& method) const {
    const std::string& baseline = options_.plan.methods.front().name;
    if (method == baseline) return "";
    const auto cells = ended(row, method);
    const auto others = ended(row, baseline);
    if (cells.empty() || others.empty()) return "–";
    std::vector<CurvePoint> points = lead_of(method, cells, others).points;
    std::erase_if(points, [](const CurvePoint& point) { return point.round < kUnderWay; });
    if (points.empty()) return "–";
    const CurvePoint lowest = *std::ranges::min_element(points, {}, &CurvePoint::mean);
    return fmt::format("{:+.2f} (round {})", 100 * lowest.mean, lowest.round);
  }

  const TableOptions& options_;
  const std::vector<Cell>& cells_;
  std::map<std::string, CellResult> results_;  // by folder
};

std::vector<Cell> make_cells(const TableOptions& options) {
  std::vector<Cell> cells;
  std::vector<NamedSettings> it_first = options.plan.methods;  // mv can begin where its initial phase ends
  std::ranges::stable_partition(it_first, [](const NamedSettings& method) { return method.name == "it"; });
  for (unsigned i = 0; i < options.seeds; ++i)
    for (const NamedSettings& row : options.plan.rows)
      for (const NamedSettings& method : it_first) {
        Cell cell{row.name, method.name, options.base};
        parse_config(row.toml, "row " + row.name, cell.config);
        parse_config(method.toml, "method " + method.name, cell.config);
        cell.config.seed = options.base.seed + i;
        cell.config.out =
            (options.out / "cells" /
             fmt::format("{}-{}-seed{}", as_file_name(row.name), as_file_name(method.name), cell.config.seed))
                .string();
        resolve(cell.config);
        cells.push_back(std::move(cell));
      }
  return cells;
}

}  // namespace

bool reproduce_table(const TableOptions& options, const Dataset& dataset, const TrainHooks& hooks) {
  const std::vector<Cell> cells = make_cells(options);
  check_cells(cells, dataset);
  make_folder(options.out);
  const auto write = [&] {
    const Table table(options, cells);
    write_file_atomically(options.out / "table.csv", table.csv());
    write_file_atomically(options.out / "table.md", table.markdown());
    if (const Figure figure = table.figure(); !figure.panels.empty())
      draw_figure(figure, options.out, "curves");
  };
  const bool finished = run_cells(cells, dataset, hooks, write);
  write();
  return finished;
}

}  // namespace signvote
