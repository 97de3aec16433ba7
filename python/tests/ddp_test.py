"""signvote.ddp: ranks of PyTorch's DDP give the same verdicts as one tally that is fed with the same gradients."""

import contextlib
import copy
import io
import sys
import unittest
import warnings

import numpy as np

from suite import main

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    print("SKIPPED ddp: there is no PyTorch")
    sys.exit(77)

import signvote
import signvote.ddp
from ranks import run_ranks


class Net(nn.Module):
    """Parameters of odd sizes, one of them frozen, and one that `skip` leaves out."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))  # first here and last in use: DDP's new buckets begin with it
        self.first = nn.Linear(7, 65)
        self.frozen = nn.Linear(65, 65)
        self.frozen.requires_grad_(False)
        self.often = nn.Linear(65, 65)
        self.last = nn.Linear(65, 1)

    def forward(self, x, skip=False):
        x = torch.relu(self.frozen(torch.relu(self.first(x))))
        if not skip:
            x = x + torch.tanh(self.often(x))
        return self.last(x) * self.scale


def flat(tensors):
    return np.concatenate([t.detach().double().numpy().ravel() for t in tensors])


def samples(rank, step):
    """A rank's batch of a step; the ranks' batches have 1, 3, 9, 27 ... samples."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(3**rank, 7, generator=random)
    return x, x.sum(1, keepdim=True)


def trained(parameters):
    return [p for p in parameters if p.requires_grad]


def train(rank, steps, setup):
    """Trains with the vote. For each step this rank's own gradient, the verdict and the parameters after the step,
    and at the end the vote's state."""
    torch.manual_seed(5)
    net = Net().to(setup.get("dtype", torch.float32))
    if "parameters" in setup:
        net.load_state_dict({name: torch.from_numpy(value) for name, value in setup["parameters"].items()})
    bucket_bytes = setup.get("bucket_bytes", 25 << 20)
    dist._DEFAULT_FIRST_BUCKET_BYTES = bucket_bytes  # DDP has no other way to make the first bucket small
    model = DistributedDataParallel(
        net,
        bucket_cap_mb=bucket_bytes / (1 << 20),
        find_unused_parameters="skip" in setup,
        gradient_as_bucket_view=setup.get("view", False),
    )
    vote = signvote.ddp.register(model, **setup["options"])
    collectives = []
    all_to_all = vote._all_to_all
    vote._all_to_all = lambda *arguments: collectives.append(arguments) or all_to_all(*arguments)
    if "state" in setup:
        vote.load_state_dict(torch.load(io.BytesIO(setup["state"])))
    weights = [p for name, p in net.named_parameters() if "weight" in name]
    others = [p for name, p in net.named_parameters() if "weight" not in name]
    optimizer = torch.optim.SGD([{"params": weights, "lr": 0.01}, {"params": others, "lr": 0.02}])
    records = []
    for number in steps:
        turn = number if setup.get("skip") == "all" else rank + number
        skip = "skip" in setup and turn % 2 == 0
        batches = [samples(rank, 100 * number + i) for i in range(setup.get("accumulate", 1))]
        alone = copy.deepcopy(net)
        alone.zero_grad()
        optimizer.zero_grad()
        for i, (x, y) in enumerate(batches):
            for m in (alone, model):
                with model.no_sync() if m is model and i + 1 < len(batches) else contextlib.nullcontext():
                    dtype = net.scale.dtype
                    loss = ((m(x.to(dtype), skip) - y.to(dtype)) ** 2).mean()
                    if (rank, number) in setup.get("absent", ()):
                        loss = loss * float("nan")
                    loss.backward()
        gradient = flat([torch.zeros_like(p) if p.grad is None else p.grad for p in trained(alone.parameters())])
        verdict = flat([torch.zeros_like(p) if p.grad is None else p.grad for p in trained(net.parameters())])
        before = flat(net.parameters())
        optimizer.step()
        records.append((gradient, verdict, before, flat(net.parameters())))
    used = len(collectives)
    state = io.BytesIO()
    torch.save(vote.state_dict(), state)
    return {
        "records": records,
        "parameters": {name: value.numpy() for name, value in net.state_dict().items()},
        "state": state.getvalue(),
        "steps": vote.steps,
        "absences": vote.absences,
        "buckets": vote._votes,
        "collectives": used,
    }


SIZE = sum(p.numel() for p in trained(Net().parameters()))


class Ranks(unittest.TestCase):
    def check(self, ranks, tally):
        """The verdicts of all ranks are those of `tally`."""
        for rows in zip(*(rank["records"] for rank in ranks)):
            expected = tally.decide([signvote.pack(gradient) for gradient, *_ in rows]).to_signs()
            self.assertGreater(np.count_nonzero(expected), SIZE // 20)
            for _, verdict, before, after in rows:
                np.testing.assert_array_equal(verdict, expected)
                self.assertFalse(np.array_equal(before, after))
                np.testing.assert_array_equal(after, rows[0][3])

    def compare(self, steps=6, ranks=4, **setup):
        setup.setdefault("options", {"method": "it", "initial_rounds": 2})
        results = run_ranks(ranks, train, range(steps), setup)
        tally = signvote.Tally(workers=ranks, end=SIZE, **setup["options"])
        self.check(results, tally)
        self.assertTrue(tally.weighted or setup["options"]["method"] == "mv")
        self.assertEqual({result["steps"] for result in results}, {steps})
        return results, tally

    def test_ranks_with_uneven_batches_vote_as_one_weighted_tally(self):
        self.compare()

    def test_ranks_vote_as_one_tally_by_majority(self):
        self.compare(options={"method": "mv"})

    def test_ranks_vote_as_one_tally_by_what_is_learnt_of_the_whole_model(self):
        for method in ("shrink", "agree"):
            self.compare(options={"method": method, "initial_rounds": 2}, bucket_bytes=100)

    def test_ranks_sign_their_own_momentum(self):
        for sign_of, betas in (("momentum:0.9", (0.9, 0.9)), ("lion:0.9,0.99", (0.9, 0.99))):
            options = {"method": "agree", "sign_of": sign_of}
            whole = run_ranks(3, train, range(6), {"options": options})
            begun = run_ranks(3, train, range(3), {"options": options, "bucket_bytes": 100})
            saved = {"options": options, "state": begun[0]["state"], "parameters": begun[0]["parameters"]}
            ended = run_ranks(3, train, range(3, 6), saved)
            tally = signvote.Tally(workers=3, end=SIZE, method="agree")
            momenta = np.zeros((3, SIZE), "float32")
            for number in range(6):
                rows = [(*begun[rank]["records"], *ended[rank]["records"])[number] for rank in range(3)]
                gradients = [row[0].astype("float32") for row in rows]
                ballots = [signvote.pack(g, momentum=m, betas=betas) for g, m in zip(gradients, momenta)]
                expected = tally.decide(ballots).to_signs()
                for rank in range(3):
                    np.testing.assert_array_equal(rows[rank][1], expected)
                    np.testing.assert_array_equal(whole[rank]["records"][number][1], expected)

    def test_weighted_verdicts_are_not_those_of_a_majority(self):
        results = run_ranks(4, train, range(6), {"options": {"method": "it", "initial_rounds": 2}})
        majority = signvote.Tally(workers=4, end=SIZE, method="mv")
        with self.assertRaises(AssertionError):
            self.check(results, majority)

    def test_buckets_may_be_small_and_are_made_anew(self):
        results, _ = self.compare(bucket_bytes=100)
        self.assertGreater(results[0]["buckets"], 1 + 5 * 3)  # one in the first step, then several

    def test_gradients_may_be_views_of_buckets(self):
        self.compare(bucket_bytes=100, view=True)

    def test_one_rank_and_three_ranks_vote_too(self):
        self.compare(ranks=1)
        self.compare(ranks=3, bucket_bytes=100)

    def test_gradients_are_accumulated_before_they_are_voted_on(self):
        results, _ = self.compare(accumulate=3)
        self.assertEqual(results[0]["steps"], 6)

    def test_parameters_that_a_rank_does_not_use_abstain(self):
        self.compare(skip="some", bucket_bytes=100)

    def test_parameters_that_no_rank_uses_stay_as_they_are(self):
        self.compare(skip="all", bucket_bytes=100)

    def test_gradients_may_be_of_float64(self):
        self.compare(dtype=torch.float64, ranks=2)

    def test_gradients_may_be_of_bfloat16(self):
        results = run_ranks(3, vote_on_bfloat16)
        if results[0] is None:
            self.skipTest("the Gloo of this PyTorch cannot send bfloat16, which DDP needs to begin")
        expected = np.sign(sum(np.sign(gradient) for gradient, _ in results))
        for _, verdict in results:
            np.testing.assert_array_equal(verdict, expected)

    def test_a_rank_whose_gradient_is_not_finite_is_absent(self):
        results, _ = self.compare(absent=[(3, 1), (0, 4), (3, 4)])
        self.assertEqual([result["absences"] for result in results], [[1, 0, 0, 2]] * 4)

    def test_what_is_too_long_for_its_room_follows(self):
        results, _ = self.compare(steps=8)
        for result in results:
            self.assertGreater(
                result["collectives"], 2 * result["buckets"]
            )  # the first messages are, in so small a net
            self.assertLess(result["collectives"], 4 * result["buckets"])

    def test_a_run_goes_on_from_its_state(self):
        options = {"method": "it", "initial_rounds": 3}
        whole = run_ranks(4, train, range(8), {"options": options})
        begun = run_ranks(4, train, range(4), {"options": options, "bucket_bytes": 100})
        saved = {"options": options, "state": begun[2]["state"], "parameters": begun[1]["parameters"]}
        ended = run_ranks(4, train, range(4, 8), saved)
        for rank in range(4):
            for row, expected in zip(begun[rank]["records"] + ended[rank]["records"], whole[rank]["records"]):
                for got, wanted in zip(row, expected):
                    np.testing.assert_array_equal(got, wanted)
            self.assertEqual(begun[rank]["state"], begun[0]["state"])
        self.assertEqual(ended[0]["steps"], 8)

    def test_a_run_goes_on_with_fewer_and_with_more_ranks(self):
        for method in ("it", "agree"):
            options = {"method": method, "initial_rounds": 2}
            results, tally = self.compare(options=options)
            for ranks in (3, 4, 2):
                saved = {"options": options, "state": results[0]["state"], "parameters": results[0]["parameters"]}
                results = run_ranks(ranks, train, range(10, 14), saved)
                tally.set_workers(ranks)
                self.check(results, tally)
                self.assertEqual(len(results[0]["absences"]), ranks)

    def test_a_step_sends_a_twentieth_of_what_float_gradients_need(self):
        for size, sent in run_ranks(4, train_large, 3):
            an_all_reduce = 2 * 4 * size * 3 / 4
            self.assertLess(sent / 3, an_all_reduce / 20)
            self.assertGreater(sent / 3, an_all_reduce / 64)  # half a bit for each coordinate


def train_large(rank, steps):
    net = nn.Linear(500, 400)
    model = DistributedDataParallel(net)
    vote = signvote.ddp.register(model, method="mv")
    for _ in range(steps):
        model(torch.randn(2**rank, 500)).square().sum().backward()
    return sum(p.numel() for p in net.parameters()), vote.bytes_sent


class Product(nn.Module):
    """Its gradient is its input. Without matrices, because some PyTorch has none of bfloat16 on some machines."""

    def __init__(self):
        super().__init__()
        self.factors = nn.Parameter(torch.ones(333, dtype=torch.bfloat16))

    def forward(self, x):
        return (self.factors * x).sum()


def vote_on_bfloat16(rank):
    try:
        model = DistributedDataParallel(Product())
    except RuntimeError as error:
        if "Invalid scalar type" in str(error):
            return None
        raise
    signvote.ddp.register(model, method="mv")
    x = torch.randn(333, generator=torch.Generator().manual_seed(rank)).bfloat16()
    model(x).backward()
    return flat([x]), flat([model.module.factors.grad])


class Lookup(nn.Module):
    """Its gradient is sparse, which no layer of it tells."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(9, 4))

    def forward(self, x):
        return nn.functional.embedding(x, self.table, sparse=True)


def problem_of(rank, what):
    """The message of the error that something wrong raises."""
    try:
        if what == "sparse":
            signvote.ddp.register(DistributedDataParallel(nn.Embedding(9, 4, sparse=True)))
        elif what == "no DDP":
            signvote.ddp.register(nn.Linear(2, 2))
        elif what == "sparse function":
            model = DistributedDataParallel(Lookup())
            signvote.ddp.register(model)
            model(torch.tensor([1, 2])).sum().backward()
        elif what == "method":
            signvote.ddp.register(DistributedDataParallel(nn.Linear(2, 2)), method="best")
        else:
            model = DistributedDataParallel(nn.Linear(2, 2))
            vote = signvote.ddp.register(model, initial_rounds=2)
            other = signvote.ddp.register(
                DistributedDataParallel(nn.Linear(2, 2, bias=what != "no bias")),
                initial_rounds=3 if what == "options" else 2,
                sign_of="momentum:0.9" if what == "sign_of" else "gradient",
            )
            if what == "thread":
                vote._exchange = lambda messages, rooms: [b"nonsense"] * len(messages)
                model(torch.ones(1, 2)).sum().backward()
            if what == "state":
                vote._exchange = lambda messages, rooms: [b"nonsense" * 9] * len(messages)
                vote.state_dict()
            vote.load_state_dict(other.state_dict())
    except (ValueError, RuntimeError, signvote.Error) as error:
        return str(error)


class Problems(unittest.TestCase):
    def check(self, what, text):
        for problem in run_ranks(2, problem_of, what):
            self.assertIn(text, problem or "none")

    def test_what_cannot_be_voted_on_is_refused_at_once(self):
        self.check("sparse", "sparse=False")
        self.check("sparse function", "parse")  # of SparseTensorImpl, or sparse: the words are those of DDP
        self.check("no DDP", "DistributedDataParallel")
        self.check("method", "method is 'best'")

    def test_a_state_of_another_model_or_with_other_options_is_refused(self):
        self.check("no bias", "only one of the two has the parameter 'bias'")
        self.check("options", "parameter 'weight': the snapshot is of a tally with other options")
        self.check("sign_of", "the state is of votes with sign_of='momentum:0.9', not 'gradient'")

    def test_a_rank_that_sends_nonsense_as_its_state_is_refused(self):
        self.check("state", "a rank's state is not that of this model")

    def test_backward_raises_what_went_wrong_in_the_vote(self):
        self.check("thread", "message")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
