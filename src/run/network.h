// The network that a run trains: one of signvote's, or the user's own from a file.
#pragma once

#include <cstddef>

#include "learn/dataset.h"
#include "learn/loss.h"
#include "learn/models.h"
#include "run/config.h"

namespace signvote {

/// Replicas of the network with its first parameters: those that the seed gives, or those in the model file.
/// Throws DataError if that file is not the one that the settings name, or is no network.
Replicas make_replicas(const TrainConfig& config, const Dataset& dataset, std::size_t count);

/// The run's loss. Throws if the network cannot be trained with it on this data set.
Loss checked_loss(const TrainConfig& config, const Dataset& dataset, Net& net);

/// Throws if the run cannot train its network on this data set. To be called before its folder is made.
void check_network(const TrainConfig& config, const Dataset& dataset);

/// Keeps a copy of the user's model file in the run's folder, if it is not there yet.
void keep_model_file(const TrainConfig& config);

}  // namespace signvote
