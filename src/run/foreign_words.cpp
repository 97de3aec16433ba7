#include "run/foreign_words.h"

#include <algorithm>
#include <cctype>

namespace signvote {
namespace {

const std::vector<ForeignWord>& foreign_words() {
  static const std::vector<ForeignWord> words = {
      {{"lr", "learning_rate", "eta", "delta", "step_size"}, {"step"}, ""},
      {{"epoch", "epochs", "n_epochs", "num_epochs", "max_epochs", "steps", "num_steps", "max_steps", "iters",
        "iterations", "num_iterations", "num_rounds"},
       {"rounds"},
       "which counts votes, not passes over the data"},
      {{"local_epochs", "local_steps", "accumulation_steps", "gradient_accumulation_steps"},
       {},
       "a worker votes once a round, on the gradient of its batch; --rounds says how many rounds"},
      {{"batch_size", "batchsize", "bs", "train_batch_size", "per_device_train_batch_size", "minibatch"},
       {"batches", "batch"},
       "which are each worker's own: 15x64 is fifteen workers of 64, 14x4,904 fifteen that differ"},
      {{"device", "devices", "gpu", "gpus", "cuda", "use_cuda", "no_cuda", "cpu", "mps"},
       {},
       "everything is computed on CPUs, and --threads says on how many cores; a worker of your own in Python "
       "may use a GPU, see docs/python.md"},
      {{"amp", "fp16", "bf16", "precision", "dtype"},
       {},
       "gradients are computed in float32, and of them only signs are sent"},
      {{"optimizer", "optim", "adam"},
       {},
       "all step by the signs that were voted; --method says how votes are weighed, --sign-of what workers "
       "sign"},
      {{"momentum", "beta", "betas", "beta1", "nesterov"}, {"sign_of"}, "e.g. momentum:0.9"},
      {{"scheduler", "schedule", "lr_scheduler", "lr_schedule", "lr_decay"}, {"step_schedule"}, ""},
      {{"warmup", "warmup_steps", "warmup_epochs"}, {"warmup_rounds"}, ""},
      {{"wd", "l2", "decay"}, {"weight_decay"}, ""},
      {{"num_workers", "n_workers", "clients", "num_clients", "n_clients", "nodes", "num_nodes"},
       {"workers"},
       "which vote; --threads says how many cores are used"},
      {{"world_size", "nproc", "np", "nproc_per_node", "num_processes", "hosts", "hostfile", "master_addr",
        "master_port", "rank", "local_rank"},
       {},
       "ranks are started by mpirun, e.g. mpirun -n 3 signvote train --engine mpi, see docs/clusters.md"},
      {{"backend", "transport"}, {"engine"}, ""},
      {{"algorithm", "algo", "aggregation", "aggregator", "strategy"}, {"method"}, ""},
      {{"arch", "architecture", "network", "net"}, {"model"}, ""},
      {{"loss_fn", "criterion", "objective"}, {"loss"}, ""},
      {{"random_seed", "manual_seed", "rng_seed"}, {"seed"}, ""},
      {{"data_dir", "data_path", "datadir", "data_root", "root"}, {"data"}, ""},
      {{"o", "out", "output", "output_dir", "outdir", "out_dir", "save_dir", "log_dir", "logdir", "run_dir",
        "workdir"},
       {"out", "state"},
       ""},
      {{"log_interval", "log_every", "eval_interval", "eval_steps", "test_every", "test_interval"},
       {"eval_every"},
       ""},
      {{"save_interval", "save_steps", "checkpoint_every"}, {"save_every"}, ""},
      {{"resume", "checkpoint", "ckpt", "continue", "restore", "resume_from", "resume_from_checkpoint"},
       {"resume", "state"},
       ""},
      {{"early_stopping", "early_stop"}, {"patience"}, ""},
      {{"iid", "non_iid", "noniid", "split", "sharding"}, {"partition"}, "e.g. iid, labels:2, dirichlet:0.3"},
      {{"byzantine", "attackers", "adversaries"}, {"attack"}, "e.g. flip:6"},
      {{"compression", "compress", "topk", "top_k", "k"}, {"sparsity"}, "e.g. 0.1"},
      {{"server", "server_address", "url"}, {"connect"}, "e.g. localhost:7000"},
      {{"host", "port", "bind", "address"}, {"listen", "connect"}, "e.g. localhost:7000"},
      {{"v", "verbose", "q", "quiet", "silent", "debug", "log_level"},
       {},
       "there is one amount of output: progress on stderr, results on stdout"},
      {{"y", "yes", "f", "force", "overwrite"},
       {},
       "nothing is overwritten and nothing asked; choose another --out, or remove the folder yourself"},
  };
  return words;
}

}  // namespace

const ForeignWord* foreign_word(const std::string& word) {
  std::string key = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  for (char& c : key) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = std::ranges::find_if(foreign_words(), [&key](const ForeignWord& foreign) {
    return std::ranges::find(foreign.words, key) != foreign.words.end();
  });
  return found == foreign_words().end() ? nullptr : &*found;
}

}  // namespace signvote
