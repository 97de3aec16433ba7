// What a user has without signvote: plain libtorch, one gradient of a whole batch, all cores inside.
// plain_gradient_bench MODEL CHANNELS SIDE BATCH REPETITIONS: one JSON object.
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "learn/models.h"
#include "measure.h"

namespace signvote::bench {
namespace {

/// The paper's MNIST network as it is usually written: ReLU, then pooling, images in torch's own order.
torch::nn::Sequential usual_cnn() {
  using namespace torch::nn;
  return Sequential(Conv2d(1, 32, 5), ReLU(), MaxPool2d(2), Conv2d(32, 64, 5), ReLU(), MaxPool2d(2),
                    Flatten(), Linear(1024, 512), ReLU(), Linear(512, 10));
}

}  // namespace
}  // namespace signvote::bench

int main(int argc, char** argv) {
  using namespace signvote;
  if (argc != 6) return 2;
  const std::string model = argv[1];
  const std::int64_t channels = std::stol(argv[2]);
  const std::int64_t side = std::stol(argv[3]);
  const std::int64_t batch = std::stol(argv[4]);
  torch::set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));
  torch::manual_seed(1);
  const torch::Tensor images = torch::rand({batch, channels, side, side});
  const torch::Tensor labels = torch::randint(10, {batch}, torch::kInt64);

  torch::nn::Sequential cnn = bench::usual_cnn();
  const auto pixels = static_cast<std::size_t>(side);
  const Shape shape = {static_cast<std::size_t>(channels), pixels, pixels};
  const std::shared_ptr<Net> net = model == "cnn" ? nullptr : make_net(model, shape, 10, 1);
  const std::vector<torch::Tensor> parameters = net ? net->parameters() : cnn->parameters();

  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < std::stoi(argv[5]); ++i) {
    for (const torch::Tensor& parameter : parameters)
      if (parameter.grad().defined()) parameter.grad().zero_();
    best = std::min(best, bench::seconds_of([&] {
                      const torch::Tensor logits = net ? net->forward(images) : cnn->forward(images);
                      torch::nn::functional::cross_entropy(logits, labels).backward();
                    }));
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      R"({{"bench":"plain_gradient","model":"{}","batch":{},"threads":{},"seconds":{:.6f},"samples_per_second":{:.1f},"peak_bytes":{}}})"
      "\n",
      model, batch, torch::get_num_threads(), best, static_cast<double>(batch) / best,
      usage.ru_maxrss * 1024);
}
