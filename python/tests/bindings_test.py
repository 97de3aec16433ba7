"""The C++ library from Python: arrays of any kind without copies, the same votes, and errors that say what is wrong."""

import copy
import os
import pathlib
import pickle
import re
import threading
import unittest

import numpy as np

import signvote
from suite import main

try:
    import torch
except ImportError:
    torch = None

SIZES = [0, 1, 2, 63, 64, 65, 127, 1000, 4099]


def random_signs(random, size):
    return random.integers(-1, 2, size, dtype="int8")


def random_ballots(random, workers, size):
    """Some workers are absent."""
    return [
        signvote.SignVector.from_signs(random_signs(random, size)) if random.random() < 0.9 else None
        for _ in range(workers)
    ]


def address(array):
    return array.__array_interface__["data"][0]


def peak_of(call):
    """By how many bytes this process was larger, at its largest, while it made the call."""

    def status(name):
        return int(re.search(rf"^{name}:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text(), re.M)[1]) * 1024

    pathlib.Path("/proc/self/clear_refs").write_text("5")  # forgets the peak until now
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


class Signs(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(3)

    def test_signs_come_back_as_they_went_in(self):
        for size in SIZES:
            signs = random_signs(self.random, size)
            vector = signvote.SignVector.from_signs(signs)
            np.testing.assert_array_equal(vector.to_signs(), signs)
            self.assertEqual([vector[i] for i in range(size)], signs.tolist())
            self.assertEqual((len(vector), vector.size), (size, size))
            self.assertEqual(vector.count_present(), np.count_nonzero(signs))

    def test_planes_have_a_bit_for_each_coordinate(self):
        for size in SIZES:
            signs = random_signs(self.random, size)
            vector = signvote.SignVector.from_signs(signs)
            for plane, expected in ((vector.present, signs != 0), (vector.negative, signs < 0)):
                bits = np.unpackbits(plane.view("uint8"), bitorder="little")
                np.testing.assert_array_equal(bits[:size], expected)
                self.assertFalse(bits[size:].any())

    def test_planes_are_not_copies(self):
        vector = signvote.SignVector(1000)
        plane = vector.present
        self.assertEqual(address(plane), address(vector.present))
        plane[0] = 5
        self.assertEqual([vector[i] for i in range(4)], [1, 0, 1, 0])
        signvote.pack(np.ones(1000, "float32"), out=vector)  # filled where it is
        self.assertEqual(address(plane), address(vector.present))
        self.assertEqual(plane[1], 2**64 - 1)
        del vector
        self.assertEqual(plane[1], 2**64 - 1)  # it keeps its vector alive

    def test_pack_takes_the_signs_of_all_types_and_shapes(self):
        for size in SIZES:
            values = self.random.standard_normal(size) * (self.random.random(size) < 0.8)
            for dtype in ("float32", "float64", "<f4", "=f8"):
                packed = signvote.pack(values.astype(dtype))
                np.testing.assert_array_equal(packed.to_signs(), np.sign(values))
        self.assertEqual(signvote.pack(np.ones((3, 4, 5))).size, 60)
        self.assertEqual(signvote.pack(memoryview(np.ones(7))).size, 7)

    def test_a_gradient_that_is_not_finite_is_no_ballot(self):
        for bad in (np.nan, np.inf, -np.inf):
            self.assertIsNone(signvote.pack(np.array([1, bad])))

    @unittest.skipIf(torch is None, "there is no PyTorch")
    def test_pack_and_step_use_the_memory_of_tensors(self):
        for size in SIZES:
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                values = torch.from_numpy(self.random.standard_normal(size)).to(dtype)
                np.testing.assert_array_equal(signvote.pack(values).to_signs(), values.sign().to(torch.int8).numpy())
        x = torch.zeros(2, 3)
        signvote.step(x[1], signvote.pack(torch.tensor([1.0, 0.0, -1.0])), 0.5)
        self.assertEqual(x.tolist(), [[0, 0, 0], [-0.5, 0, 0.5]])
        with self.assertRaisesRegex(ValueError, "contiguous"):
            signvote.pack(torch.ones(4, 4).t())
        with self.assertRaisesRegex(ValueError, "16 bits"):
            signvote.pack(torch.ones(4).half())

    def test_momentum_is_signed_and_moved_on(self):
        for betas in ((0.9, 0.9), (0.9, 0.99), (0, 0)):
            momentum, expected = np.zeros(1000, "float32"), np.zeros(1000)
            for _ in range(5):
                gradient = self.random.standard_normal(1000).astype("float32")
                signs = signvote.pack(gradient, momentum=momentum, betas=betas).to_signs()
                voted = betas[0] * expected + (1 - betas[0]) * gradient
                clear = np.abs(voted) > 1e-5  # of the others the sign is a matter of rounding
                self.assertGreater(np.count_nonzero(clear), 900)
                np.testing.assert_array_equal(signs[clear], np.sign(voted)[clear])
                expected = betas[1] * expected + (1 - betas[1]) * gradient
                np.testing.assert_allclose(momentum, expected, atol=1e-5)
        kept = momentum.copy()
        self.assertIsNone(signvote.pack(np.full(1000, np.nan, "float32"), momentum=momentum))
        np.testing.assert_array_equal(momentum, kept)

    def test_step_changes_parameters_in_place(self):
        x = self.random.standard_normal(1000).astype("float32")
        signs = random_signs(self.random, 1000)
        expected = x - np.float32(0.1) * signs.astype("float32")
        signvote.step(x, signvote.SignVector.from_signs(signs), 0.1)
        np.testing.assert_array_equal(x, expected)

    def test_messages_come_back_as_they_went_out(self):
        for size in SIZES:
            signs = signvote.SignVector.from_signs(random_signs(self.random, size))
            header = signvote.MessageHeader(kind="ballot", run_id=2**64 - 1, round=3, worker=2, size=size)
            message = signvote.encode(header, signs)
            self.assertEqual(signvote.decode(message, header), signs)
            self.assertEqual(signvote.decode(memoryview(message), header), signs)
            self.assertEqual(signvote.decode_header(message), header)
            for part in (message[:-1], message[:10], b""):
                with self.assertRaises(signvote.DataError):
                    signvote.decode(part, header)
            with self.assertRaises(signvote.DataError):
                signvote.decode(message, signvote.MessageHeader(run_id=1, round=3, worker=2, size=size))

    def test_what_makes_no_sense_is_refused(self):
        vector = signvote.SignVector(10)
        read_only = np.zeros(10, "float32")
        read_only.flags.writeable = False
        for problem, call in {
            "contiguous": lambda: signvote.pack(np.ones((4, 4)).T),
            "float32, float64 or bfloat16": lambda: signvote.pack(np.ones(4, "float16")),
            "out has 10 coordinates; it must have 4": lambda: signvote.pack(np.ones(4), out=vector),
            "a beta is 1": lambda: signvote.pack(read_only, momentum=np.zeros(10, "float32"), betas=(1, 0.9)),
            "the momentum has 9 coordinates": lambda: signvote.pack(read_only, momentum=np.zeros(9, "float32")),
            "the momentum may only be read": lambda: signvote.pack(read_only, momentum=read_only),
            "must be an array of float32": lambda: signvote.step(np.ones(10), vector, 0.1),
            "has 9 coordinates; it must have 10": lambda: signvote.step(np.ones(9, "float32"), vector, 0.1),
            "may only be read": lambda: signvote.step(read_only, vector, 0.1),
            "array of int8": lambda: signvote.SignVector.from_signs(np.ones(4)),
            "has 2 at 1": lambda: signvote.SignVector.from_signs(np.array([1, 2], "int8")),
            "a sign is": lambda: vector.__setitem__(0, 2),
            "kind is 'vote'": lambda: signvote.MessageHeader(kind="vote"),
            "it must have 10": lambda: signvote.encode(signvote.MessageHeader(size=9), vector),
            "of no worker": lambda: signvote.encode(signvote.MessageHeader(kind="verdict", worker=1, size=10), vector),
        }.items():
            with self.assertRaisesRegex(ValueError, problem):
                call()
        with self.assertRaisesRegex(TypeError, "list, which is no array"):
            signvote.pack([1.0, 2.0])
        for i in (10, -11):
            with self.assertRaises(IndexError):
                vector[i]

    def test_vectors_are_compared_and_copied_by_their_signs(self):
        for size in SIZES:
            vector = signvote.SignVector.from_signs(random_signs(self.random, size))
            for same in (pickle.loads(pickle.dumps(vector)), copy.copy(vector)):
                self.assertEqual(same, vector)
                self.assertIsNot(same, vector)
            if size > 0:
                same[0] = 1 if vector[0] == 0 else 0
                self.assertNotEqual(same, vector)
        self.assertNotEqual(vector, "signs")


class Tallies(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(4)

    def test_a_majority_is_the_sign_of_the_sum(self):
        for size in SIZES:
            tally = signvote.Tally(workers=5, end=size, method="mv")
            ballots = random_ballots(self.random, 5, size)
            total = sum((b.to_signs() for b in ballots if b is not None), np.zeros(size, "int8"))
            np.testing.assert_array_equal(tally.decide(ballots).to_signs(), np.sign(total))

    def test_half_errors_are_counted_by_the_equation(self):
        size = 1000
        tally = signvote.Tally(workers=5, end=size, initial_rounds=3)
        counts = np.zeros((5, size), "int64")
        rounds = np.zeros(5, "int64")
        for _ in range(20):
            ballots = random_ballots(self.random, 5, size)
            verdict = tally.decide(ballots).to_signs()
            for m, ballot in enumerate(ballots):
                if ballot is not None:
                    counts[m] += 1 - verdict * ballot.to_signs()
                    rounds[m] += 1
        self.assertTrue(tally.weighted)
        self.assertEqual(tally.rounds, 20)
        self.assertEqual([tally.rounds_of(m) for m in range(5)], rounds.tolist())
        for m in range(5):
            np.testing.assert_array_equal(tally.half_errors(m), counts[m])
        np.testing.assert_array_equal(tally.total_half_errors(), counts.sum(1))
        tally.forget(2)
        self.assertEqual((tally.rounds_of(2), tally.total_half_errors()[2]), (0, 0))

    def test_a_tally_goes_on_from_its_snapshot(self):
        for method in ("mv", "it", "shrink", "agree"):
            tally = signvote.Tally(workers=5, end=1000, initial_rounds=3, method=method)
            for _ in range(5):
                tally.decide(random_ballots(self.random, 5, 1000))
            restored = signvote.Tally(workers=5, end=1000, initial_rounds=3, method=method)
            restored.restore(tally.snapshot())
            others = [restored, pickle.loads(pickle.dumps(tally)), copy.deepcopy(tally)]
            for _ in range(5):
                ballots = random_ballots(self.random, 5, 1000)
                verdict = tally.decide(ballots)
                for other in others:
                    self.assertEqual(other.decide(ballots), verdict)
                    self.assertEqual(other.snapshot(), tally.snapshot())

    def test_a_tally_is_restored_from_parts_and_in_parts(self):
        whole = signvote.Tally(workers=3, end=1000)
        for _ in range(5):
            whole.decide(random_ballots(self.random, 3, 1000))
        parts = []
        for begin, end in ((0, 100), (100, 1000)):
            part = signvote.Tally(workers=3, begin=begin, end=end)
            part.restore(whole.snapshot())
            np.testing.assert_array_equal(part.half_errors(1), whole.half_errors(1)[begin:end])
            parts.append(part.snapshot())
        again = signvote.Tally(workers=3, end=1000)
        again.restore(parts)
        self.assertEqual(again.snapshot(), whole.snapshot())
        with self.assertRaisesRegex(signvote.DataError, "no snapshot of the tally has coordinate 0"):
            again.restore(parts[1])
        with self.assertRaisesRegex(signvote.DataError, "checksum"):
            again.restore(whole.snapshot()[:-1] + b"x")

    def test_parts_that_are_told_the_sums_of_all_decide_as_the_whole(self):
        for method in ("mv", "it", "shrink", "agree"):
            options = {"workers": 5, "method": method, "initial_rounds": 2}
            whole = signvote.Tally(end=1000, **options)
            ranges = ((0, 128), (128, 1000))
            parts = [signvote.Tally(begin=begin, end=end, **options) for begin, end in ranges]
            truth = random_signs(self.random, 1000)
            for _ in range(20):
                votes = [truth * np.where(self.random.random(1000) < p, 1, -1) for p in (0.9, 0.6, 0.6, 0.7, 0.3)]
                votes = [v.astype("int8") for v in votes]
                expected = whole.decide([signvote.SignVector.from_signs(v) for v in votes]).to_signs()
                for part, (begin, end) in zip(parts, ranges):
                    ballots = [signvote.SignVector.from_signs(v[begin:end]) for v in votes]
                    np.testing.assert_array_equal(part.decide(ballots).to_signs(), expected[begin:end])
                sums = parts[0].pooled() + parts[1].pooled()
                np.testing.assert_array_equal(sums, whole.pooled())
                for part in parts:
                    part.set_pooled(sums)
            self.assertEqual(len(whole.worker_weights()), 5 if method == "agree" else 0)
            if method == "agree":
                np.testing.assert_array_equal(parts[0].worker_weights(), whole.worker_weights())
                self.assertLess(whole.worker_weights()[4], 0)  # what it says is wrong, and that is information
                self.assertEqual(np.argmax(whole.worker_weights()), 0)

    def test_verdicts_can_be_written_where_they_are_wanted(self):
        tally = signvote.Tally(workers=2, end=100)
        out = signvote.SignVector(100)
        plane = out.present
        ballot = signvote.pack(np.ones(100))
        self.assertIs(tally.decide([ballot, None], out=out), out)
        self.assertEqual(address(plane), address(out.present))
        self.assertEqual(out, ballot)

    @unittest.skipUnless(os.access("/proc/self/clear_refs", os.W_OK), "this system does not tell a peak of memory")
    def test_nothing_large_is_copied(self):
        size = 1 << 25
        ballots = [signvote.SignVector(size) for _ in range(3)]
        for ballot in ballots:
            ballot.present[:] = 2**64 - 1
        out = signvote.SignVector(size)
        gradient, x = np.ones(size, "float32"), np.ones(size, "float32")
        tally = signvote.Tally(workers=3, end=size, method="mv")
        for call in (
            lambda: tally.decide(ballots, out=out),
            lambda: signvote.pack(gradient, out=out),
            lambda: signvote.pack(gradient, out=out, momentum=x),
            lambda: signvote.step(x, out, 0.1),
        ):
            call()  # memory that is used for the first time is not counted
            self.assertLess(peak_of(call), size // 8, "less than one plane of one vector")
        self.assertGreater(peak_of(gradient.copy), 3 * size)

    def test_new_workers_have_never_voted_and_those_that_left_are_dropped(self):
        tally = signvote.Tally(workers=3, end=1000, initial_rounds=2)
        for _ in range(5):
            tally.decide([signvote.SignVector.from_signs(random_signs(self.random, 1000)) for _ in range(3)])
        counts = [tally.half_errors(m) for m in range(3)]
        tally.set_workers(5)
        tally.set_workers(4)
        self.assertEqual([tally.rounds_of(m) for m in range(4)], [5, 5, 5, 0])
        for m in range(4):
            np.testing.assert_array_equal(tally.half_errors(m), counts[m] if m < 3 else np.zeros(1000))
        ballots = random_ballots(self.random, 3, 1000)
        same = signvote.Tally(workers=4, end=1000, initial_rounds=2)
        same.restore(tally.snapshot())
        tally.set_workers(3)
        # A worker that has never voted and is absent changes nothing.
        self.assertEqual(tally.decide(ballots), same.decide([*ballots, None]))

    def test_what_makes_no_sense_is_refused(self):
        tally = signvote.Tally(workers=2, end=100)
        ballot = signvote.SignVector(100)
        for problem, call in {
            "at least one worker": lambda: signvote.Tally(workers=0, end=1),
            "method is 'best'; it must be 'mv' or 'it'": lambda: signvote.Tally(workers=1, end=1, method="best"),
            "runs backwards": lambda: signvote.Tally(workers=1, begin=2, end=1),
            "clip is": lambda: signvote.Tally(workers=1, end=1, clip=float("nan")),
            "needs at least one": lambda: tally.set_workers(0),
            "1 ballots for 2 workers": lambda: tally.decide([ballot]),
            "a ballot has 99 coordinates": lambda: tally.decide([ballot, signvote.SignVector(99)]),
            "out has 99": lambda: tally.decide([ballot, None], out=signvote.SignVector(99)),
            "one of the ballots": lambda: tally.decide([ballot, None], out=ballot),
            "sums is not contiguous": lambda: tally.set_pooled(np.zeros(8, "int64")[::2]),
            "sums has items of d; it must be an array of int64": lambda: tally.set_pooled(np.zeros(4)),
            "an array of int64": lambda: tally.set_pooled(np.zeros(4, "int32")),
        }.items():
            with self.assertRaisesRegex(ValueError, problem):
                call()
        self.assertEqual(tally.rounds, 0)
        for call in (tally.forget, tally.half_errors, tally.rounds_of):
            with self.assertRaises(IndexError):
                call(2)
        self.assertTrue(issubclass(signvote.ConfigError, signvote.Error))

    def test_tallies_in_threads_give_the_same_verdicts(self):
        ballots = [
            [signvote.SignVector.from_signs(random_signs(self.random, 20000)) for _ in range(3)] for _ in range(9)
        ]
        snapshots = [None] * 4

        def vote(i):
            tally = signvote.Tally(workers=3, end=20000, initial_rounds=2)
            for cast in ballots:
                tally.decide(cast)
            snapshots[i] = tally.snapshot()

        threads = [threading.Thread(target=vote, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(snapshots, [snapshots[0]] * 4)
        self.assertIsNotNone(snapshots[0])


class Box(unittest.TestCase):
    def test_a_round_in_bytes_is_the_round_of_the_tally(self):
        random = np.random.default_rng(5)
        tally, same = (signvote.Tally(workers=3, end=500) for _ in range(2))
        box = signvote.BallotBox(tally, run_id=9)
        for number in range(3):
            ballots = random_ballots(random, 3, 500)
            for m, ballot in enumerate(ballots):
                if ballot is not None:
                    box.cast(
                        m, signvote.encode(signvote.MessageHeader(run_id=9, round=number, worker=m, size=500), ballot)
                    )
            message = box.close()
            verdict = same.decide(ballots)
            header = signvote.MessageHeader(kind="verdict", run_id=9, round=number, size=500)
            self.assertEqual(signvote.decode(message, header), verdict)
            self.assertEqual(box.verdict, verdict)

    def test_a_ballot_that_is_refused_says_why(self):
        tally = signvote.Tally(workers=2, end=100)
        box = signvote.BallotBox(tally, run_id=9)
        good = signvote.encode(signvote.MessageHeader(run_id=9, size=100), signvote.SignVector(100))
        box.cast(0, good)
        for worker, message in ((0, good), (1, good), (5, good), (1, b"nonsense")):
            with self.assertRaises(signvote.DataError):
                box.cast(worker, message)
        tally.set_workers(3)
        with self.assertRaisesRegex(ValueError, "another number of workers"):
            box.close()


if __name__ == "__main__":
    main()
