#!/usr/bin/python3
"""One server round of IT-signSGD in PyTorch and NumPy: what signvote's tally has to beat.

A round, after the initial phase, with Y the ballots (-1, 0, +1) of M workers over N coordinates, U the
verdict, t the rounds so far and c the half-errors (contradiction 2, abstention of either side 1, agreement 0):

    p = c / 2t,   LLR = ln((1 - p) / p) clipped to +-10      (equation 4)
    U = sign(sum over workers of LLR * Y)                    (equation 3)
    c += 1 - Y * U,   t += 1

torch_layers  the structure of the paper's authors: a loop over the layers, the workers' signs of each stacked
              into a float32 tensor (*layer, M), beside float32 counters of that shape
torch_flat    the same equations on flat float32 tensors (M, N), in place
torch_table   the fastest found in PyTorch
numpy_table   the fastest found in NumPy

Why it is fair: every core is used. Each gets the ballots unpacked, as they come (a tensor per worker and layer)
or better (all workers in one array, in the type and layout it likes best), before the clock starts; nothing is
copied needlessly; warm-up rounds do not count and the best repetition does. The *_table ones use that c is an
integer: the LLRs are looked up in a table of 2t + 1 entries, which is quicker than a logarithm for each, and they
go through the coordinates in chunks small enough for the caches, one Python thread per core (both libraries
release the interpreter lock).

--check compares verdicts and counters with a plain float64 loop; they may differ only where |sum| < 1e-4.
"""

import argparse
import itertools
import json
import math
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

CLIP = 10.0
CORES = os.cpu_count()
CHUNK = 32768  # coordinates; 16,384 is about as good; at 8,192 and at 65,536 one or both are slower
WARM_UP = 3
NEAR_TIE = 1e-4

# The MNIST cnn of src/learn/models.cpp: 582,026 parameters.
CNN_LAYERS = [(32, 1, 5, 5), (32,), (64, 32, 5, 5), (64,), (512, 1024), (512,), (10, 512), (10,)]


def layer_shapes(size):
    """The cnn's layers, repeated as long as one fits; what is then left of `size` is one flat layer."""
    shapes, left = [], size
    for shape in itertools.cycle(CNN_LAYERS):
        if left < min(map(math.prod, CNN_LAYERS)):
            return shapes + [(left,)] * (left > 0)
        if math.prod(shape) <= left:
            shapes.append(shape)
            left -= math.prod(shape)


def llr_table(rounds):
    """The clipped LLR of every possible count of half-errors, 0 to 2 * rounds."""
    p = np.arange(2 * rounds + 1) / (2 * rounds)
    with np.errstate(divide="ignore"):
        return np.clip(np.log((1 - p) / p), -CLIP, CLIP).astype(np.float32)


class TorchLayers:
    def __init__(self, half_errors, rounds):
        torch.set_num_threads(CORES)
        self.rounds = rounds
        self.shapes = layer_shapes(half_errors.shape[1])
        self.errors = self._layers(half_errors / 2)

    def load(self, ballots):
        self.ballots = [[layer[..., m].clone() for m in range(len(ballots))] for layer in self._layers(ballots)]

    def vote(self):
        self.verdicts = []
        for errors, ballots in zip(self.errors, self.ballots):
            signs = torch.stack(ballots, -1)
            p = errors / self.rounds
            llr = (1 - p).div_(p).log_().clamp_(-CLIP, CLIP)
            verdict = llr.mul_(signs).sum(-1).sign_()
            errors.add_(0.5).addcmul_(signs, verdict.unsqueeze(-1), value=-0.5)
            self.verdicts.append(verdict)
        self.rounds += 1

    def verdict(self):
        return torch.cat([v.flatten() for v in self.verdicts]).numpy()

    def half_errors(self):
        return 2 * torch.cat([e.flatten(0, -2) for e in self.errors]).T.numpy()

    def _layers(self, rows):
        columns = torch.from_numpy(rows.T.astype(np.float32))
        split = columns.split([math.prod(shape) for shape in self.shapes])
        return [part.reshape(*shape, -1).clone() for part, shape in zip(split, self.shapes)]


class TorchFlat:
    def __init__(self, half_errors, rounds):
        torch.set_num_threads(CORES)
        self.rounds = rounds
        self.errors = torch.from_numpy(half_errors.astype(np.float32) / 2)
        self.llr = torch.empty_like(self.errors)

    def load(self, ballots):
        self.signs = torch.from_numpy(ballots.astype(np.float32))

    def vote(self):
        torch.div(self.errors, self.rounds, out=self.llr)
        torch.logit(self.llr, 1 / (1 + math.exp(CLIP)), out=self.llr)  # of p: the LLR, negated and clipped
        self.u = self.llr.mul_(self.signs).sum(0).neg_().sign_()
        self.errors.add_(0.5).addcmul_(self.signs, self.u, value=-0.5)
        self.rounds += 1

    def verdict(self):
        return self.u.numpy()

    def half_errors(self):
        return 2 * self.errors.numpy()


class Chunked:
    """Coordinates in even chunks, each an array (M, n) of its own; every core has its share of them."""

    def __init__(self, half_errors, rounds, chunk=CHUNK):
        self.rounds = rounds
        self.count = CORES * math.ceil(half_errors.shape[1] / (CORES * chunk))
        self.counters = self._chunks(half_errors.astype(self.counter_type))
        self.verdicts = [self._own(np.zeros(c.shape[1], np.int8)) for c in self.counters]
        self.scratch = [self._scratch(*self.counters[0].shape) for _ in range(CORES)]
        self.pool = ThreadPoolExecutor(CORES, initializer=torch.set_num_threads, initargs=(1,))

    def load(self, ballots):
        self.ballots = self._chunks(ballots)

    def vote(self):
        table = self._own(llr_table(self.rounds))
        list(self.pool.map(lambda core: self._vote_share(core, table), range(CORES)))
        self.rounds += 1

    def verdict(self):
        return np.concatenate([np.asarray(v) for v in self.verdicts])

    def half_errors(self):
        return np.concatenate([np.asarray(c) for c in self.counters], axis=1)

    def _vote_share(self, core, table):
        for i in range(core, self.count, CORES):
            self._vote_chunk(table, self.ballots[i], self.counters[i], self.verdicts[i], *self.scratch[core])

    def _chunks(self, rows):
        return [self._own(np.ascontiguousarray(part)) for part in np.array_split(rows, self.count, axis=1)]


class TorchTable(Chunked):
    counter_type = np.int32  # the narrowest that index_select takes
    _own = staticmethod(torch.from_numpy)

    @staticmethod
    def _scratch(workers, n):
        cells = workers * n
        return torch.empty(cells), torch.empty(cells), torch.empty(cells, dtype=torch.int8), torch.empty(n)

    @staticmethod
    def _vote_chunk(table, ballots, half_errors, verdict, weights, signs, growth, total):
        shape, cells = ballots.shape, ballots.numel()
        weights, total = weights[:cells], total[: shape[1]]
        signs, growth = signs[:cells].view(shape), growth[:cells].view(shape)
        torch.index_select(table, 0, half_errors.view(-1), out=weights)
        signs.copy_(ballots)  # float * int8 would do the same, and allocate for it
        torch.sum(weights.view(shape).mul_(signs), 0, out=total)
        verdict.copy_(total.sign_())
        half_errors.add_(torch.mul(ballots, verdict, out=growth).neg_().add_(1))


class NumpyTable(Chunked):
    counter_type = np.int16  # enough for 16,383 rounds
    _own = staticmethod(lambda array: array)

    @staticmethod
    def _scratch(workers, n):
        cells = workers * n
        return (
            np.empty(cells, np.intp),
            np.empty(cells, np.float32),
            np.empty(cells, np.int8),
            np.empty(n, np.float32),
        )

    @staticmethod
    def _vote_chunk(table, ballots, half_errors, verdict, index, weights, growth, total):
        shape, cells = ballots.shape, ballots.size
        index, weights, growth = (buffer[:cells].reshape(shape) for buffer in (index, weights, growth))
        total = total[: shape[1]]
        np.copyto(index, half_errors)  # take() would convert it too, and allocate for it
        np.take(table, index, out=weights, mode="clip")  # the default mode buffers `out`
        np.add.reduce(np.multiply(weights, ballots, out=weights), axis=0, out=total)
        np.sign(total, out=verdict, casting="unsafe")
        half_errors += np.subtract(1, np.multiply(ballots, verdict, out=growth), out=growth)


IMPLEMENTATIONS = {
    "torch_layers": TorchLayers,
    "torch_flat": TorchFlat,
    "torch_table": TorchTable,
    "numpy_table": NumpyTable,
}


def random_ballots(rng, workers, size):
    return rng.integers(-1, 2, (workers, size), dtype=np.int8)


def random_half_errors(rng, workers, size, rounds):
    return rng.integers(0, 2 * rounds + 1, (workers, size), dtype=np.int16)


def best_seconds(implementation, workers, size, repetitions):
    rng = np.random.default_rng(0)
    rounds = 100
    server = implementation(random_half_errors(rng, workers, size, rounds), rounds)
    server.load(random_ballots(rng, workers, size))
    seconds = []
    for _ in range(WARM_UP + repetitions):
        start = time.perf_counter()
        server.vote()
        seconds.append(time.perf_counter() - start)
    return min(seconds[WARM_UP:])


def exact_llr(half_errors, rounds):
    if half_errors in (0, 2 * rounds):
        return CLIP if half_errors == 0 else -CLIP
    return max(-CLIP, min(CLIP, math.log((2 * rounds - half_errors) / half_errors)))


def disagreement(name, server, half_errors, rounds, rng, rounds_to_play):
    """Plays rounds against a float64 judge; returns what went wrong first, or None."""
    workers, size = half_errors.shape
    expected = half_errors.tolist()
    for t in range(rounds, rounds + rounds_to_play):
        ballots = random_ballots(rng, workers, size)
        server.load(ballots)
        server.vote()
        verdict, counted = server.verdict(), server.half_errors()
        for n in range(size):
            u = verdict[n]
            total = sum(exact_llr(expected[m][n], t) * float(ballots[m, n]) for m in range(workers))
            if u not in (-1, 0, 1) or (abs(total) >= NEAR_TIE and u != math.copysign(1, total)):
                return f"{name}: round {t}, coordinate {n}: the verdict is {u}, the exact sum {total}"
            for m in range(workers):
                y = ballots[m, n]
                expected[m][n] += 1 if y == 0 or u == 0 else 0 if y == u else 2
                if counted[m, n] != expected[m][n]:
                    return (
                        f"{name}: round {t}, worker {m}, coordinate {n}: "
                        f"{counted[m, n]} half-errors counted, {expected[m][n]} expected"
                    )
    return None


def check(names):
    """Small chunks and few earlier rounds, so that chunk borders and clipped LLRs come up."""
    workers, size, rounds, rounds_to_play = 5, 200, 3, 20
    for name in names:
        rng = np.random.default_rng(1)
        half_errors = random_half_errors(rng, workers, size, rounds)
        chunking = {"chunk": 33} if issubclass(IMPLEMENTATIONS[name], Chunked) else {}
        server = IMPLEMENTATIONS[name](half_errors, rounds, **chunking)
        problem = disagreement(name, server, half_errors, rounds, rng, rounds_to_play)
        if problem:
            sys.exit(problem)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--size", type=int, default=582026)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", choices=IMPLEMENTATIONS)
    parser.add_argument("--check", action="store_true", help="compare with the judge instead of timing")
    options = parser.parse_args()
    names = [options.only] if options.only else list(IMPLEMENTATIONS)
    if options.check:
        check(names)
        return
    for name in names:
        seconds = best_seconds(IMPLEMENTATIONS[name], options.workers, options.size, options.repetitions)
        print(
            json.dumps(
                {
                    "bench": "server_round",
                    "name": name,
                    "workers": options.workers,
                    "size": options.size,
                    "seconds": round(seconds, 6),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
