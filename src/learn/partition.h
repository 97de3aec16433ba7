// Which training samples each worker holds: D_m for every worker m.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace signvote {

/// The rules, as written on the command line:
///   iid           disjoint equal shares of a shuffled data set
///   shared        every worker holds everything (the authors' setting)
///   labels:K      each worker holds K labels; a label's samples are dealt to those that hold it
///   dirichlet:A   disjoint equal shares, each with its own mix of labels drawn from Dirichlet(A)
///                 (Hsu, Qi and Brown 2019): small A, few labels a worker; large A, nearly iid
/// Throws ConfigError for another rule, or a number that makes no sense.
void check_partition_rule(const std::string& rule);

/// D_m as indices into the training set of so many `samples`, ascending. `labels` has each sample's class, or
/// nothing if there are none. It depends only on the arguments. Throws ConfigError if the rule needs classes
/// that are not there.
std::vector<std::vector<std::uint32_t>> partition(const std::string& rule, std::size_t samples,
                                                  std::span<const std::int64_t> labels, std::size_t classes,
                                                  std::size_t workers, std::uint64_t seed);

}  // namespace signvote
