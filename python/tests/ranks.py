"""Ranks of PyTorch's DDP as processes of a test."""

import contextlib
import faulthandler
import multiprocessing
import signal
import tempfile
import traceback

import torch
import torch.distributed as dist

TIMEOUT = 300  # seconds; only a rank that hangs takes so long

with contextlib.suppress(ImportError):
    import torch._dynamo  # newer versions import it for DDP: here once, and not in each rank


def run_ranks(ranks, function, *arguments):
    """What function(rank, *arguments) returns on each rank of a new process group. Ranks are forks, which start
    quickly; so nothing may compute with torch in this process before."""
    context = multiprocessing.get_context("fork")

    def rank_main(rank, folder, pipe):
        # Where it hangs; then nobody waits for it any more. Not by a timer of faulthandler: the parent may have set one,
        # and a fork would wait for its thread.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(TIMEOUT)
        try:
            torch.set_num_threads(1)
            dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=ranks)
            pipe.send((None, function(rank, *arguments)))
        except BaseException:
            pipe.send((traceback.format_exc(), None))

    with tempfile.TemporaryDirectory() as folder:
        started = []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            process = context.Process(target=rank_main, args=(rank, folder, theirs), daemon=True)
            process.start()
            theirs.close()
            started.append((process, ours))
        results = []
        for process, pipe in started:
            try:
                problem, result = pipe.recv()
            except EOFError:
                problem, result = "a rank ended without a word; what it was at is above", None
            if problem:
                for other, _ in started:
                    other.kill()
                raise AssertionError(problem)
            results.append(result)
        for process, _ in started:
            process.join()
        return results
