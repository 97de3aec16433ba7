// A worker of your own: the network of own_loop.cpp, trained together with workers on other machines, through
// a server that tallies the votes. The connection is by TLS; it may break, and the server may be started
// again.
//
//   own_worker HOST:PORT CERTIFICATE KEY AUTHORITY SAMPLES
//
// takes SAMPLES samples a round. The three files are PEM, as `signvote certs` makes them. The server's model
// must have as many parameters as this one.
#include <signvote/error.h>
#include <signvote/sign_vector.h>
#include <signvote/worker_session.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "small_model.h"

std::string read_file(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void work(const signvote::WorkerSessionOptions& options, std::uint32_t samples) {
  using Event = signvote::WorkerSession::Event;
  signvote::WorkerSession session(options);
  const signvote::JoinedRun& run = session.join();
  if (run.parameters != kParameters) throw std::runtime_error("the server trains another model");
  std::printf("worker %u: %llu rounds, %u samples each\n", run.worker,
              static_cast<unsigned long long>(run.rounds), samples);

  Source source(1000 + run.worker);
  std::vector<float> model(kParameters);  // the session fills it in, and steps it
  signvote::SignVector ballot;
  while (true) {
    switch (session.next(model)) {
      case Event::vote: {
        std::vector<float> gradient(kParameters);
        double loss = 0;
        for (std::uint32_t i = 0; i < samples; ++i) loss += add_gradient(model, source.draw(), gradient);
        // pack returns a coordinate that is NaN or infinite, if there is one.
        if (signvote::pack(gradient, ballot))
          session.abstain();
        else
          session.vote(ballot, samples, loss);
        break;
      }
      case Event::stepped:
        break;
      case Event::finished:
        std::printf("accuracy after %llu rounds: %.1f %%\n", static_cast<unsigned long long>(session.round()),
                    100 * accuracy(model));
        return;
      case Event::stopped:  // by session.stop(), which nobody calls here
        return;
    }
  }
}

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: own_worker HOST:PORT CERTIFICATE KEY AUTHORITY SAMPLES\n");
    return 2;
  }
  try {
    signvote::WorkerSessionOptions options;
    options.connect = argv[1];
    options.certificate = read_file(argv[2]);
    options.key = read_file(argv[3]);
    options.authority = read_file(argv[4]);
    options.program = "own_worker";
    options.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    work(options, static_cast<std::uint32_t>(std::atoi(argv[5])));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_worker: %s\n", error.what());
    return 1;
  }
}
