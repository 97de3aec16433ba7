// The journal: which file holds what, and the order in which files are made and removed. One thread writes,
// and any thread may read verdicts. So files are written without the mutex, and what readers look up
// changes under it, after the new files exist and before the old ones are removed.
#include "journal/journal.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <mutex>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "journal/folder.h"
#include "journal/record.h"
#include "journal/state_file.h"
#include "journal/verdict_log.h"
#include "signvote/error.h"
#include "signvote/sign_vector.h"
#include "signvote/wire.h"

namespace signvote {
namespace {

namespace fs = std::filesystem;

void step_by(const std::vector<std::byte>& message, std::uint64_t round, const Step& by,
             const fs::path& folder, std::span<float> parameters) {
  MessageHeader header;
  SignVector signs;
  std::string problem;
  if (decode_header(message, header, problem)) {
    header = {
        .kind = MessageKind::verdict, .run_id = header.run_id, .round = round, .size = parameters.size()};
    if (decode(message, header, signs, problem)) return step(parameters, signs, by);
  }
  throw DataError(
      fmt::format("the verdict of round {} in '{}' cannot be stepped: {}", round, folder.string(), problem));
}

DataError damaged_since(const InputFile& log, std::uint64_t offset, const std::string& problem) {
  return DataError(
      fmt::format("'{}' was damaged at byte {} since it was opened: {}; put it back from a backup",
                  log.path().string(), offset, problem));
}

// A crash in `create` leaves a folder without a snapshot (its last file) or any round. That is not a
// journal.
bool is_journal(const fs::path& folder, const FolderListing& listing) {
  if (!listing.snapshots.empty() || !listing.verdicts.empty()) return true;
  return std::ranges::any_of(listing.logs, [&folder](std::uint64_t first) {
    return InputFile(folder / rounds_name(first)).bytes() > kStartBytes;
  });
}

}  // namespace

class Journal::Impl {
 public:
  Impl(fs::path folder, Mode mode, const std::function<void(const std::string&)>& report);

  State snapshot() const { return snapshot_->load(); }
  void replay(const std::function<void(const JournalEvent&)>& visit) const;
  void append(const MemberRecord& member);
  void append(std::uint64_t round, const CastBallot& ballot);
  void append(std::uint64_t round, std::span<const std::uint32_t> counted,
              std::span<const std::byte> verdict);
  void take_snapshot(const State& snapshot, std::uint64_t keep, const StepOfRound& step_of);
  std::uint64_t rounds() const;
  std::uint64_t oldest() const;
  std::optional<std::vector<std::byte>> verdict(std::uint64_t round) const;
  std::shared_ptr<const SnapshotReader> open_snapshot() const;
  std::vector<float> model(std::uint64_t rounds, const StepOfRound& step_of) const;
  std::vector<File> files() const;

 private:
  /// Throws if nothing more may be written after an earlier failure.
  void require_sound() const;
  /// The log, ready for one more record, which is encoded into bytes_.
  DurableLog& log();
  void open(const FolderListing& listing, Mode mode, const std::function<void(const std::string&)>& report);
  void start_after(const State& snapshot);
  std::shared_ptr<const StateFile> write_and_check(StateKind kind, const State& state) const;
  void undo_snapshot(std::uint64_t round);
  Segment write_verdicts(std::uint64_t first, std::uint64_t last) const;
  /// Where a round's ballots lie in the active log: the last one of each worker.
  using Ballots = std::map<std::uint32_t, std::uint64_t>;
  Ballots write_rounds(std::uint64_t first, LogStart& start) const;
  void drop_verdicts(std::uint64_t keep, const StepOfRound& step_of);
  void step_through(std::uint64_t first, std::uint64_t last, const StepOfRound& step_of,
                    std::span<float> parameters) const;
  void remove(const std::string& name) const;

  fs::path folder_;
  std::optional<OpenFolder> open_folder_;  // none if read_only
  std::unique_ptr<DurableLog> log_;        // null if read_only
  LogStart start_;                         // of that log
  std::uint64_t log_bytes_ = 0;            // up to the last member or verdict
  Ballots cast_;                           // in the open round
  std::vector<std::byte> bytes_;           // the record being written; kept, because fresh memory is slow
  std::string broken_;                     // why nothing more may be written

  mutable std::mutex mutex_;  // guards all below, except that the writing thread reads without it
  std::shared_ptr<const StateFile> base_;
  std::shared_ptr<const StateFile> snapshot_;
  std::vector<Segment> segments_;            // from base_ to snapshot_
  std::shared_ptr<const InputFile> active_;  // rounds-S.log
  std::vector<Place> places_;                // its verdicts
};

Journal::Impl::Impl(fs::path folder, Mode mode, const std::function<void(const std::string&)>& report)
    : folder_(std::move(folder)) {
  // A reader may run beside a writer, which replaces files when it takes a snapshot and cuts off the end of
  // its log when it starts. So an error counts only if it is found twice in the same files.
  std::string before;
  while (true) {
    const FolderListing listing = list_folder(folder_);
    try {
      open(listing, mode, report);
      return;
    } catch (const DataError& error) {
      if (mode == Mode::append || (error.what() == before && list_folder(folder_) == listing)) throw;
      before = error.what();
    }
  }
}

void Journal::Impl::open(const FolderListing& listing, Mode mode,
                         const std::function<void(const std::string&)>& report) {
  const FolderPlan plan = plan_folder(folder_, listing);
  const auto base = std::make_shared<StateFile>(folder_ / base_name(plan.base), StateKind::base, plan.base);
  const auto snapshot =
      std::make_shared<StateFile>(folder_ / snapshot_name(plan.snapshot), StateKind::snapshot, plan.snapshot);
  active_ = std::make_shared<InputFile>(folder_ / rounds_name(plan.snapshot));
  base->check();
  snapshot->check();
  base_ = base;
  snapshot_ = snapshot;
  if (base_->parameter_bytes() != snapshot_->parameter_bytes())
    throw DataError(fmt::format("{} and {} in '{}' are of different models; put them back from a backup",
                                base_name(plan.base), snapshot_name(plan.snapshot), folder_.string()));
  segments_.clear();
  for (const auto& [first, last] : plan.verdicts) {
    const InputFile file(folder_ / verdicts_name(first, last));
    segments_.push_back({first, last, check_log(file, first, last).places});
  }
  LogContent content = check_log(*active_, plan.snapshot, std::nullopt);
  places_ = std::move(content.places);
  start_ = content.start;
  log_bytes_ = content.bytes;
  if (plan.unfinished && rounds() < *plan.unfinished)
    throw DataError(
        fmt::format("'{}' is damaged at byte {}: it ends before round {}, but {} is there; put it back "
                    "from a backup",
                    active_->path().string(), log_bytes_, rounds(), snapshot_name(*plan.unfinished)));

  // Everything was checked. Only now may something be changed. The writer before may have been killed before
  // it had synced its last records, or the name of its log.
  if (mode == Mode::append) {
    log_ = std::make_unique<DurableLog>(active_->path(), log_bytes_);
    open_folder_.emplace(folder_);
    open_folder_->sync();
    for (const std::string& name : listing.temporaries) remove(name);
    for (const std::string& name : plan.leftovers) remove(name);
  }
  if (!content.torn.empty())
    report(fmt::format(
        "'{}' ends as a crash leaves it ({}): {} {} from byte {} on; up to round {} all is there",
        active_->path().string(), content.torn, active_->bytes() - log_bytes_,
        mode == Mode::append ? "bytes were cut off" : "bytes are passed over", log_bytes_, rounds()));
  if (!plan.leftovers.empty())
    report(fmt::format("'{}' has what an unfinished snapshot leaves: {} files {}, beginning with {}",
                       folder_.string(), plan.leftovers.size(),
                       mode == Mode::append ? "were removed" : "are passed over", plan.leftovers.front()));
}

void Journal::Impl::replay(const std::function<void(const JournalEvent&)>& visit) const {
  LogReader reader(*active_, start_.bytes, log_bytes_, start_.seed);
  std::map<std::uint32_t, CastBallot> cast;  // in the open round; a later ballot replaces an earlier one
  while (true) {
    DecodedRecord decoded = reader.next();
    if (decoded.status == RecordStatus::end) return;
    if (decoded.status != RecordStatus::ok) throw damaged_since(*active_, reader.offset(), decoded.problem);
    if (const auto* member = std::get_if<MemberRecord>(&decoded.record)) {
      visit(*member);
    } else if (auto* ballot = std::get_if<BallotRecord>(&decoded.record)) {
      cast[ballot->ballot.worker] = std::move(ballot->ballot);
    } else {
      auto& verdict = std::get<VerdictRecord>(decoded.record);
      RoundRecord round{.round = verdict.round, .ballots = {}, .verdict = std::move(verdict.verdict)};
      for (const std::uint32_t worker : verdict.counted) round.ballots.push_back(std::move(cast[worker]));
      cast.clear();
      visit(std::move(round));
    }
  }
}

void Journal::Impl::require_sound() const {
  assert(log_);
  if (!broken_.empty()) throw DataError(broken_);
  log_->require_sound();
}

DurableLog& Journal::Impl::log() {
  require_sound();
  bytes_.clear();
  return *log_;
}

void Journal::Impl::append(const MemberRecord& member) {
  DurableLog& log = this->log();
  encode_member(member, log.synced(), start_.seed, bytes_);
  log.write(bytes_);
  log.sync();
  log_bytes_ = log.bytes();
}

void Journal::Impl::append(std::uint64_t round, const CastBallot& ballot) {
  assert(round == rounds());
  DurableLog& log = this->log();
  encode_ballot(round, ballot, log.synced(), start_.seed, bytes_);
  const std::uint64_t offset = log.bytes();
  log.write(bytes_);
  cast_[ballot.worker] = offset;
}

void Journal::Impl::append(std::uint64_t round, std::span<const std::uint32_t> counted,
                           std::span<const std::byte> verdict) {
  assert(round == rounds());
  assert(std::ranges::includes(cast_, counted, {}, &Ballots::value_type::first));
  DurableLog& log = this->log();
  const std::size_t offset = encode_verdict(round, counted, verdict, log.synced(), start_.seed, bytes_);
  const Place place = place_of(verdict, log.bytes() + offset);
  log.write(bytes_);
  log.sync();
  log_bytes_ = log.bytes();
  cast_.clear();
  const std::scoped_lock lock(mutex_);
  places_.push_back(place);
}

void Journal::Impl::take_snapshot(const State& snapshot, std::uint64_t keep, const StepOfRound& step_of) {
  assert(snapshot.round == rounds());
  assert(snapshot.parameters.size() * sizeof(float) == base_->parameter_bytes());
  require_sound();
  if (snapshot.round > snapshot_->round()) {
    start_after(snapshot);
  } else {  // replaces the last one, because no round came since; its log has no verdict and stays
    auto written = write_and_check(StateKind::snapshot, snapshot);
    const std::scoped_lock lock(mutex_);
    snapshot_ = std::move(written);
  }
  drop_verdicts(keep, step_of);
}

// Takes the steps in the order that folder.h explains.
void Journal::Impl::start_after(const State& snapshot) {
  const std::uint64_t first = snapshot_->round(), last = snapshot.round;
  std::shared_ptr<const StateFile> state;
  std::shared_ptr<const InputFile> active;
  std::unique_ptr<DurableLog> log;
  Segment segment;
  LogStart start;
  Ballots cast;
  try {
    state = write_and_check(StateKind::snapshot, snapshot);
    segment = write_verdicts(first, last);
    cast = write_rounds(last, start);  // now the snapshot is valid
    active = std::make_shared<InputFile>(folder_ / rounds_name(last));
    log = std::make_unique<DurableLog>(folder_ / rounds_name(last), active->bytes());
  } catch (...) {
    undo_snapshot(last);
    throw;
  }
  {
    const std::scoped_lock lock(mutex_);
    segments_.push_back(std::move(segment));
    snapshot_ = std::move(state);
    active_ = std::move(active);
    places_.clear();
  }
  log_ = std::move(log);
  start_ = start;
  log_bytes_ = start.bytes;
  cast_ = std::move(cast);
  remove(rounds_name(first));
  remove(snapshot_name(first));
}

std::shared_ptr<const StateFile> Journal::Impl::write_and_check(StateKind kind, const State& state) const {
  const fs::path path =
      folder_ / (kind == StateKind::base ? base_name(state.round) : snapshot_name(state.round));
  write_state(path, kind, state);
  auto written = std::make_shared<StateFile>(path, kind, state.round);
  written->check_parameters();
  return written;
}

// A failed snapshot must be removed for good before the old log grows: if its rounds log came back after a
// crash, the snapshot would be valid. Nothing is opened here, because a snapshot may have failed for lack of
// file descriptors, which must not end the run.
void Journal::Impl::undo_snapshot(std::uint64_t round) {
  remove(rounds_name(round));
  remove(verdicts_name(snapshot_->round(), round));
  remove(snapshot_name(round));
  std::error_code error;
  const bool gone = !fs::exists(folder_ / rounds_name(round), error) && !error;
  try {
    open_folder_->sync();
    if (gone) return;
  } catch (const DataError&) {
  }
  broken_ = fmt::format(
      "the journal in '{}' takes no more after a snapshot that failed; check the disk and its free "
      "space, then start again",
      folder_.string());
}

Segment Journal::Impl::write_verdicts(std::uint64_t first, std::uint64_t last) const {
  Segment segment{.first = first, .last = last, .places = {}};
  AtomicFile file(folder_ / verdicts_name(first, last), Access::owner);
  std::vector<std::byte> bytes;
  const LogStart start = encode_start(bytes);
  file.write(bytes);
  std::uint64_t offset = start.bytes;
  for (std::uint64_t round = first; round < last; ++round) {
    const auto message = verdict(round);
    assert(message);
    bytes.clear();
    const std::size_t begin = encode_verdict(round, {}, *message, 0, start.seed, bytes);
    segment.places.push_back(place_of(*message, offset + begin));
    file.write(bytes);
    offset += bytes.size();
  }
  file.commit();
  return segment;
}

// Writes a log of the rounds from `first` on, which begins with the ballots of the open round so far.
Journal::Impl::Ballots Journal::Impl::write_rounds(std::uint64_t first, LogStart& start) const {
  AtomicFile file(folder_ / rounds_name(first), Access::owner);
  Ballots moved;
  std::vector<std::byte> bytes;
  start = encode_start(bytes);
  file.write(bytes);
  std::uint64_t written = start.bytes;
  for (const auto& [worker, offset] : cast_) {
    const DecodedRecord decoded = LogReader(*active_, offset, log_->bytes(), start_.seed).next();
    if (decoded.status != RecordStatus::ok) throw damaged_since(*active_, offset, decoded.problem);
    bytes.clear();
    encode_ballot(first, std::get<BallotRecord>(decoded.record).ballot, 0, start.seed, bytes);
    file.write(bytes);
    moved[worker] = written;
    written += bytes.size();
  }
  file.commit();
  return moved;
}

void Journal::Impl::drop_verdicts(std::uint64_t keep, const StepOfRound& step_of) {
  const std::uint64_t end = snapshot_->round();
  auto kept = segments_.begin();
  while (kept != segments_.end() && end - kept->last >= keep) ++kept;
  if (kept == segments_.begin()) return;
  State moved;
  moved.round = (kept - 1)->last;
  moved.parameters = base_->parameters();
  step_through(base_->round(), moved.round, step_of, moved.parameters);
  auto written = write_and_check(StateKind::base, moved);
  std::vector<std::string> dropped = {base_name(base_->round())};
  for (auto segment = segments_.begin(); segment != kept; ++segment)
    dropped.push_back(verdicts_name(segment->first, segment->last));
  {
    const std::scoped_lock lock(mutex_);
    base_ = std::move(written);
    segments_.erase(segments_.begin(), kept);
  }
  for (const std::string& name : dropped) remove(name);
}

void Journal::Impl::step_through(std::uint64_t first, std::uint64_t last, const StepOfRound& step_of,
                                 std::span<float> parameters) const {
  for (std::uint64_t round = first; round < last; ++round) {
    const auto message = verdict(round);
    assert(message);
    step_by(*message, round, step_of(round), folder_, parameters);
  }
}

// A file that cannot be removed does no harm: the next one to open the journal tries again.
void Journal::Impl::remove(const std::string& name) const { ::unlink((folder_ / name).c_str()); }

std::uint64_t Journal::Impl::rounds() const {
  const std::scoped_lock lock(mutex_);
  return snapshot_->round() + places_.size();
}

std::uint64_t Journal::Impl::oldest() const {
  const std::scoped_lock lock(mutex_);
  return base_->round();
}

std::optional<std::vector<std::byte>> Journal::Impl::verdict(std::uint64_t round) const {
  std::shared_ptr<const InputFile> file;
  Place place;
  {
    // The log is opened under the mutex, because it could be removed otherwise, and read without it,
    // because reading takes long.
    const std::scoped_lock lock(mutex_);
    const std::uint64_t snapshot = snapshot_->round();
    if (round < base_->round() || round >= snapshot + places_.size()) return std::nullopt;
    if (round >= snapshot) {
      file = active_;
      place = places_[round - snapshot];
    } else {
      const auto segment = std::ranges::upper_bound(segments_, round, {}, &Segment::last);
      file = std::make_shared<InputFile>(folder_ / verdicts_name(segment->first, segment->last));
      place = segment->places[round - segment->first];
    }
  }
  std::vector<std::byte> message(place.bytes);
  file->read(place.offset, message);
  if (XXH3_64bits(message.data(), message.size()) != place.checksum)
    throw DataError(
        fmt::format("'{}' is damaged: the verdict of round {}, at byte {}, has changed since it was "
                    "checked; put it back from a backup",
                    file->path().string(), round, place.offset));
  return message;
}

std::shared_ptr<const SnapshotReader> Journal::Impl::open_snapshot() const {
  const std::scoped_lock lock(mutex_);
  return snapshot_->damaged() ? base_ : snapshot_;
}

std::vector<float> Journal::Impl::model(std::uint64_t rounds, const StepOfRound& step_of) const {
  if (rounds < oldest() || rounds > this->rounds())
    throw ConfigError(fmt::format("the model after {} is not in '{}', which has those from {} to {}",
                                  counted(rounds, "round"), folder_.string(), oldest(), this->rounds()));
  // The snapshot's own model is also stepped from the base, because the caller wants to see where the
  // verdicts lead.
  const StateFile& start = rounds > snapshot_->round() ? *snapshot_ : *base_;
  std::vector<float> parameters = start.parameters();
  step_through(start.round(), rounds, step_of, parameters);
  return parameters;
}

std::vector<Journal::File> Journal::Impl::files() const {
  std::vector<File> files;
  const auto add = [&](std::string name, std::string kind, std::uint64_t first, std::uint64_t last) {
    const std::uint64_t bytes = InputFile(folder_ / name).bytes();
    files.push_back({std::move(name), std::move(kind), first, last, bytes});
  };
  const std::uint64_t base = base_->round(), snapshot = snapshot_->round();
  add(base_name(base), "base", base, base);
  for (const Segment& segment : segments_)
    add(verdicts_name(segment.first, segment.last), "verdicts", segment.first, segment.last);
  add(snapshot_name(snapshot), "snapshot", snapshot, snapshot);
  add(rounds_name(snapshot), "rounds", snapshot, rounds());
  return files;
}

void Journal::create(const fs::path& folder, const State& start) {
  make_folder(folder, Access::owner);
  const FolderListing before = list_folder(folder);
  if (is_journal(folder, before))
    throw ConfigError(fmt::format("'{}' already has a journal; choose another folder", folder.string()));
  for (const std::uint64_t round : before.bases) ::unlink((folder / base_name(round)).c_str());
  for (const std::uint64_t first : before.logs) ::unlink((folder / rounds_name(first)).c_str());
  for (const std::string& name : before.temporaries) ::unlink((folder / name).c_str());
  const State base{.round = start.round, .notes = {}, .parameters = start.parameters, .tally = {}};
  try {
    write_state(folder / base_name(start.round), StateKind::base, base);
    std::vector<std::byte> bytes;
    encode_start(bytes);
    write_file_atomically(folder / rounds_name(start.round), bytes, Access::owner);
    write_state(folder / snapshot_name(start.round), StateKind::snapshot, start);
  } catch (const DataError&) {
    for (const std::string& name :
         {snapshot_name(start.round), rounds_name(start.round), base_name(start.round)})
      ::unlink((folder / name).c_str());
    throw;
  }
}

bool Journal::exists(const fs::path& folder) { return is_journal(folder, list_folder(folder)); }

Journal::Journal(const fs::path& folder, Mode mode, const std::function<void(const std::string&)>& report)
    : impl_(std::make_unique<Impl>(folder, mode, report)) {}
Journal::~Journal() = default;
State Journal::snapshot() const { return impl_->snapshot(); }
void Journal::replay(const std::function<void(const JournalEvent&)>& visit) const { impl_->replay(visit); }
void Journal::append(const MemberRecord& member) { impl_->append(member); }
void Journal::append(std::uint64_t round, const CastBallot& ballot) { impl_->append(round, ballot); }
void Journal::append(std::uint64_t round, std::span<const std::uint32_t> counted,
                     std::span<const std::byte> verdict) {
  impl_->append(round, counted, verdict);
}
void Journal::take_snapshot(const State& snapshot, std::uint64_t keep, const StepOfRound& step_of) {
  impl_->take_snapshot(snapshot, keep, step_of);
}
std::uint64_t Journal::rounds() const { return impl_->rounds(); }
std::uint64_t Journal::oldest() const { return impl_->oldest(); }
std::optional<std::vector<std::byte>> Journal::verdict(std::uint64_t round) const {
  return impl_->verdict(round);
}
std::shared_ptr<const SnapshotReader> Journal::open_snapshot() const { return impl_->open_snapshot(); }
std::vector<float> Journal::model(std::uint64_t rounds, const StepOfRound& step_of) const {
  return impl_->model(rounds, step_of);
}
std::vector<Journal::File> Journal::files() const { return impl_->files(); }

}  // namespace signvote
