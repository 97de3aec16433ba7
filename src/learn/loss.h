// What training makes small, as a sum over the samples of a batch. If y has several elements, a sample's loss
// is the mean over them: a text's is the mean over its tokens.
#pragma once

#include <torch/torch.h>

#include <string>

#include "learn/batch.h"
#include "learn/dataset.h"
#include "learn/models.h"

namespace signvote {

enum class Loss {
  cross_entropy,  // of logits N x C x ..., as torch has them, and classes N x ...
  next_token,     // cross-entropy of logits N x L x C, as language models give them, and tokens N x L
  mse,            // of an output with as many elements as y
  own,            // the network's own, which is the mean over the batch
};

/// `name` as a user writes it: "cross-entropy", "mse", or "" for the network's own, or cross-entropy if it
/// has none. Throws ConfigError for another one, and for a loss that cannot be that of this data set.
Loss choose_loss(const std::string& name, const Dataset& dataset, const Net& net);

torch::Tensor total_loss(Loss loss, Net& net, const torch::Tensor& output, const torch::Tensor& y);

/// What the network takes to be most likely for each element of y; undefined if its output is no logits for
/// so many classes.
torch::Tensor predicted(Loss loss, const torch::Tensor& output, const Batch& batch, std::size_t classes,
                        bool is_text);

/// Tries a training step on two samples, so that what does not fit is found before a run begins. Throws
/// DataError with torch's reason.
void try_network(Net& net, const Dataset& dataset, Loss loss);

}  // namespace signvote
