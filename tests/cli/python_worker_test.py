"""Workers in Python: beside those in C++ to the same bytes, and at a server that knows no model."""

import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import numpy
import torch

import signvote
from command_line import ENVIRONMENT, Case, main, metrics, run, summary, write_toml
from server_and_workers import Certificates, Server, Worker
from waiting import TIMEOUT, ends_in_time, exits_in_time

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/own_worker.py"
INPUTS, OUTPUTS, SAMPLES = 12, 4, 40
# A linear model on whole numbers, whose parameters are multiples of the step: all sums are exact, so that Python's
# are those of C++, in whatever order.
STEP = 1 / 64
EXACT = {
    "method": "it",
    "initial_rounds": 5,
    "sign_of": "gradient",
    "partition": "shared",
    "loss": "mse",
    "batches": f"4,12,{SAMPLES}",
    "rounds": 30,
    "step": STEP,
    "step_schedule": "constant",
    "eval_every": 1,
}


def tearDownModule():
    exits_in_time()  # with all that gRPC and PyTorch do then


def sha256(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


class PythonWorker(Case):
    def setUp(self):
        super().setUp()
        self.enterContext(ends_in_time())  # because workers wait in this process
        random = numpy.random.default_rng(3)
        self.x = random.integers(-2, 3, (SAMPLES, INPUTS)).astype("float32")
        self.y = random.integers(-8, 9, (SAMPLES, OUTPUTS)).astype("float32")

    def gradient(self, parameters):
        """Of half the squared errors of all samples, and their sum."""
        errors = self.x @ parameters.reshape(OUTPUTS, INPUTS).T - self.y
        return (errors.T @ self.x).ravel(), float((errors**2).sum())

    def exact_run(self):
        """The flags of the model and the data, which C++ knows too."""
        data = self.folder / "exact"
        data.mkdir()
        for part in ("train", "test"):
            numpy.save(data / f"{part}_x.npy", self.x)
            numpy.save(data / f"{part}_y.npy", self.y)
        model = torch.nn.Linear(INPUTS, OUTPUTS, bias=False)
        first = numpy.random.default_rng(4).integers(-20, 21, (OUTPUTS, INPUTS)) * STEP
        model.weight.data = torch.from_numpy(first.astype("float32"))
        torch.jit.script(model).save(str(self.folder / "exact.pt"))
        return write_toml(self.folder / "exact.toml", {**EXACT, "model": "exact.pt", "dataset": str(data)}), data

    def served(self, *arguments, **options):
        server = Server(self.folder, *arguments, **options)
        self.addCleanup(server.close)
        return server.start()

    def worker(self, server, slot, **options):
        return signvote.Worker(f"127.0.0.1:{server.port}", name=f"worker-{slot}", **options)

    def ended(self, *programs):
        for program in programs:
            self.assertEqual(program.wait(), 0, program.tail())

    def conform(self, meanwhile):
        """Runs it locally, and with two workers in C++ and one in Python, which calls `meanwhile` in each round."""
        settings, data = self.exact_run()
        self.assertEqual(run("train", "--config", settings, "--out", self.folder / "local").returncode, 0)
        server = self.served(settings, None)
        others = []
        for slot in (0, 1):
            worker = Worker(f"worker-{slot}", self.folder, server, None, data, "--model", self.folder / "exact.pt")
            self.addCleanup(worker.close)
            others.append(worker.start())
        hashes = {}
        with self.worker(server, 2) as worker:
            parameters = worker.join()
            for turn in worker:
                hashes[turn] = sha256(parameters)
                gradient, loss = self.gradient(parameters)
                meanwhile(server, turn)
                worker.vote(gradient, samples=SAMPLES, loss=loss)
            self.assertTrue(worker.finished)
            hashes[worker.round] = sha256(parameters)
        self.ended(server, *others)
        self.assertEqual(len(set(hashes.values())), EXACT["rounds"] + 1)  # it moves in every round
        del hashes[0]
        for folder in (self.folder / "local", server.state):
            self.assertEqual(hashes, {row["round"]: row["model_sha256"] for row in metrics(folder)})
        local, net = summary(self.folder / "local"), summary(server.state)
        for key in ("model_sha256", "mean_error_rates", "absences", "test_loss"):
            self.assertEqual(local[key], net[key])

    def test_beside_workers_in_cpp_every_step_is_that_of_the_local_engine(self):
        self.conform(lambda server, turn: None)

    def test_it_joins_again_when_the_server_was_killed(self):
        def kill_once(server, turn):
            if turn == 7 and server.lives == 1:
                server.kill()
                server.start()

        self.conform(kill_once)

    def one_worker_of(self, parameters, *flags, rounds=3):
        """A server of these parameters and one worker, to the end. Returns the run's folder and the worker's model."""
        settings = write_toml(self.folder / "run.toml", {"workers": 1, "rounds": rounds, "method": "mv"})
        server = self.served(settings, None, "--parameters", parameters, *flags)
        with self.worker(server, 0) as worker:
            model = worker.join()
            for turn in worker:
                gradient = numpy.where(numpy.arange(len(model)) % 3 == 0, 1.0, -1.0 - turn)
                worker.vote(gradient, samples=1 + turn, loss=turn)
        self.ended(server)
        return server.state, model

    def test_a_server_knows_no_model(self):
        first = numpy.random.default_rng(5).normal(size=(5, 7)).astype("float32")
        numpy.save(self.folder / "first.npy", first)
        state, model = self.one_worker_of(self.folder / "first.npy", "--eval-every", 1)
        self.assertEqual(summary(state)["model_sha256"], sha256(model))
        self.assertNotIn("test_loss", summary(state))
        self.assertEqual([row["train_loss"] for row in metrics(state)], [0, 1 / 2, 2 / 3])
        last = numpy.load(state / "model.npy")
        self.assertEqual((last.shape, last.dtype, sha256(last)), (first.shape, first.dtype, sha256(model)))
        moved = numpy.sign(model - first.ravel())
        self.assertEqual(moved.tolist(), [-1.0 if n % 3 == 0 else 1.0 for n in range(35)])
        # What else reads the folder, when the first file is gone.
        (self.folder / "first.npy").unlink()
        self.succeed("journal", state, "verify")
        self.succeed("journal", state, "model", "--round", 0, "--out", self.folder / "zero.npy")
        self.assertEqual(sha256(numpy.load(self.folder / "zero.npy")), sha256(first))
        self.succeed("inspect", state)
        self.refuse(2, "eval", state, says="without a network")

    def test_a_worker_reports_how_good_the_model_is(self):
        numpy.save(self.folder / "first.npy", numpy.zeros(9, dtype="float32"))
        settings = write_toml(self.folder / "run.toml", {"workers": 1, "rounds": 5, "method": "mv"})
        server = self.served(settings, None, "--parameters", self.folder / "first.npy", "--eval-every", 5)
        told = {1: {"accuracy": 0.5}, 2: {"accuracy": 0.75, "loss": 0.2}, 4: {"accuracy": 0.625, "loss": 0.1}}
        models = {}
        with self.worker(server, 0) as worker:
            model = worker.join()
            for turn in worker:
                models[turn] = model.copy()
                for wrong in ({}, {"accuracy": 1.5}, {"accuracy": numpy.nan}, {"loss": numpy.inf}):
                    with self.assertRaises(ValueError, msg=wrong):
                        worker.report(**wrong)
                if turn in told:
                    worker.report(**told[turn])
                worker.vote(numpy.ones(9), samples=1, loss=0)
        self.ended(server)
        rows = metrics(server.state)
        self.assertEqual([row["round"] for row in rows], [1, 2, 4, 5])
        for row in rows[:3]:
            expected = {f"test_{name}": value for name, value in told[row["round"]].items()}
            expected |= {"reported_by": "worker-0", "model_sha256": sha256(models[row["round"]])}
            self.assertEqual({name: row.get(name) for name in expected}, expected)
        self.assertNotIn("reported_by", rows[3])
        self.assertEqual(len({frozenset(row.keys() - expected.keys()) for row in rows}), 1)  # the rest is as ever
        best = {"round": 2, "test_accuracy": 0.75, "test_loss": 0.2, "model_sha256": sha256(models[2])}
        self.assertEqual(summary(server.state)["best"], {**best, "file": "best.npy"})
        self.assertEqual(numpy.load(server.state / "best.npy").tolist(), models[2].tolist())
        self.assertNotIn("test_accuracy", summary(server.state))  # the server has tested nothing

    def test_signvote_worker_tests_a_model_that_the_server_does_not_know(self):
        data = self.folder / "data"
        data.mkdir()
        labels = numpy.random.default_rng(6).integers(0, OUTPUTS, SAMPLES)
        for part in ("train", "test"):
            numpy.save(data / f"{part}_x.npy", self.x)
            numpy.save(data / f"{part}_y.npy", labels)
        network = torch.nn.Linear(INPUTS, OUTPUTS)
        torch.jit.script(network).save(str(self.folder / "net.pt"))
        x, y = torch.from_numpy(self.x), torch.from_numpy(labels)
        settings = write_toml(self.folder / "run.toml", {"workers": 2, "rounds": 6, "eval_every": 2, "step": 0.05})
        weight, bias = (parameter.detach().numpy() for parameter in network.parameters())
        numpy.save(self.folder / "first.npy", numpy.concatenate([weight.ravel(), bias]))
        torch.save(dict(network.state_dict()), self.folder / "first.pt")  # there the bias comes first, by its name
        for name in ("first.npy", "first.pt"):
            server = self.served(settings, None, "--parameters", self.folder / name)
            flags = ["--evaluate", "--model", self.folder / "net.pt"]
            judge = Worker("worker-1", self.folder, server, None, data, *flags)
            self.addCleanup(judge.close)
            judge.start()
            expected = {}
            with self.worker(server, 0) as worker:
                model = worker.join()
                for turn in worker:
                    parts = torch.from_numpy(model.copy()).split(
                        [weight.size, bias.size] if name == "first.npy" else [bias.size, weight.size]
                    )
                    w, b = parts if name == "first.npy" else parts[::-1]
                    output = x @ w.reshape(weight.shape).T + b
                    accuracy = (output.argmax(1) == y).double().mean().item()
                    expected[turn] = (accuracy, torch.nn.functional.cross_entropy(output, y).item())
                    worker.vote(numpy.cos(numpy.arange(len(model)) * (turn + 1)), samples=1, loss=0)
            self.ended(server, judge)
            rows = {row["round"]: row for row in metrics(server.state) if "reported_by" in row}
            self.assertEqual(sorted(rows), [2, 4, 5])
            for turn, row in rows.items():
                self.assertEqual(row["reported_by"], "worker-1")
                self.assertAlmostEqual(row["test_accuracy"], expected[turn][0], places=6)
                self.assertAlmostEqual(row["test_loss"], expected[turn][1], places=4)
            self.assertEqual(len({row["test_loss"] for row in rows.values()}), 3)
            shutil.rmtree(server.state)

    def test_signvote_worker_says_why_it_tests_nothing(self):
        settings, data = self.exact_run()
        numpy.save(self.folder / "first.npy", numpy.zeros(9, dtype="float32"))
        bare = write_toml(self.folder / "run.toml", {"workers": 1})
        flags = ["--insecure", "--name", "worker-0", "--evaluate"]
        own = ["--model", self.folder / "exact.pt", "--data", data]
        self.refuse_each(
            2,
            [
                (["worker", "--connect", "127.0.0.1:1", *flags, "--data", data], "needs a --model"),
                (["worker", "--connect", "127.0.0.1:1", *flags, *own, "--batch", 3], "leave --batch"),
            ],
        )
        for served, says in (
            ([settings, None], "leave --evaluate out"),
            ([bare, None, "--parameters", self.folder / "first.npy"], "has 9 parameters"),
        ):
            server = self.served(*served)
            result = run("worker", "--connect", f"127.0.0.1:{server.port}", *flags, *own)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(says, result.stderr)
            server.close()
            shutil.rmtree(server.state)

    def test_a_report_to_a_server_that_tests_the_model_itself_is_refused(self):
        settings, _ = self.exact_run()
        server = self.served(settings, None)
        with self.worker(server, 2) as worker:
            self.assertEqual(next(worker), 0)
            worker.report(accuracy=0.5)
            worker.abstain()
            with self.assertRaisesRegex(signvote.EngineError, "tests itself; leave it out"):
                next(worker)

    def test_a_state_dict_keeps_its_names_and_shapes(self):
        torch.manual_seed(1)
        first = {"b.weight": torch.rand(3, 4), "a": torch.rand(5)}
        torch.save(first, self.folder / "first.pt")
        state, model = self.one_worker_of(self.folder / "first.pt")
        last = torch.load(state / "model.pt", weights_only=True)
        self.assertEqual({name: tensor.shape for name, tensor in last.items()}, {"a": (5,), "b.weight": (3, 4)})
        flat = torch.cat([last["a"], last["b.weight"].flatten()])  # in the order of the names
        self.assertEqual(flat.tolist(), model.tolist())

    def test_it_goes_on_where_it_was(self):
        numpy.save(self.folder / "first.npy", numpy.zeros(9, dtype="float32"))
        # A schedule that does not depend on the number of rounds, so that the run can be made longer.
        state, before = self.one_worker_of(self.folder / "first.npy", "--step-schedule", "constant")
        (self.folder / "first.npy").unlink()
        server = self.served(self.folder / "run.toml", None, "--rounds", 5)
        with self.worker(server, 0) as worker:
            model = worker.join()
            self.assertEqual((worker.round, worker.rounds, model.tolist()), (3, 5, before.tolist()))
            for _ in worker:
                worker.vote(numpy.ones(9), samples=1, loss=0)
        self.ended(server)
        self.assertEqual(summary(state)["model_sha256"], sha256(model))

    def test_what_makes_no_sense_is_refused(self):
        first = self.folder / "first.npy"
        numpy.save(first, numpy.zeros(9, dtype="float32"))
        numpy.save(self.folder / "double.npy", numpy.zeros(9))
        numpy.save(self.folder / "nan.npy", numpy.array([0, numpy.nan], dtype="float32"))
        torch.save({"a": torch.zeros(3, dtype=torch.int64)}, self.folder / "whole.pt")
        (self.folder / "text.pt").write_text("no model")

        def server(*flags):
            return ["server", "--listen", "127.0.0.1:0", "--insecure", "--state", self.folder / "state", *flags]

        self.refuse_each(
            2,
            [
                (server("--parameters", first, "--dataset", "cifar10"), "--dataset"),
                (server("--parameters", first, "--sign-of", "gradient"), "--sign-of"),
                (server("--parameters", first, "--patience", 3), "--patience"),
                (server("--parameters", self.folder / "no.npy"), "no.npy"),
                (server("--parameters", first, "--parameters-sha256", "0" * 64), "SHA-256"),
                (server("--parameters-sha256", "0" * 64), "--parameters-sha256"),
            ],
        )
        self.refuse_each(
            1,
            [
                (server("--parameters", self.folder / name), [name, why])
                for name, why in (
                    ("double.npy", "<f8"),
                    ("nan.npy", "coordinate 1"),
                    ("whole.pt", "int64"),
                    ("text.pt", "cannot be used"),
                )
            ],
        )
        self.assertFalse((self.folder / "state/config.toml").exists())

    def test_a_worker_that_knows_no_such_model_says_so(self):
        numpy.save(self.folder / "first.npy", numpy.zeros(9, dtype="float32"))
        settings = write_toml(self.folder / "run.toml", {"workers": 1})
        server = self.served(settings, None, "--parameters", self.folder / "first.npy")
        address = f"127.0.0.1:{server.port}"
        self.refuse(2, "worker", "--connect", address, "--insecure", "--name", "worker-0", says="worker of its own")

    def test_a_worker_says_what_is_wrong(self):
        for options, kind in (
            ({"address": "nowhere", "name": "worker-0"}, signvote.ConfigError),
            ({"address": "example.org:7000", "name": "worker-0"}, signvote.ConfigError),  # not without TLS
            ({"address": "127.0.0.1:7000", "ca": "ca.pem"}, signvote.ConfigError),
            ({"address": "127.0.0.1:7000"}, signvote.ConfigError),
            ({"address": "127.0.0.1:7000", **dict.fromkeys(("ca", "cert", "key"), "/nowhere")}, signvote.DataError),
        ):
            with self.assertRaises(kind, msg=options):
                signvote.Worker(**options)
        numpy.save(self.folder / "first.npy", numpy.zeros(9, dtype="float32"))
        settings = write_toml(self.folder / "run.toml", {"workers": 1, "rounds": 2})
        server = self.served(settings, None, "--parameters", self.folder / "first.npy")
        with self.assertRaisesRegex(signvote.EngineError, "stranger"):
            signvote.Worker(f"127.0.0.1:{server.port}", name="stranger").join()
        with self.worker(server, 0) as worker:
            gradient = numpy.ones(9)
            with self.assertRaisesRegex(ValueError, "no open round"):
                worker.vote(gradient, samples=1, loss=0)
            for _ in worker:
                with self.assertRaisesRegex(ValueError, "samples"):
                    worker.vote(gradient, samples=0, loss=0)
                with self.assertRaisesRegex(ValueError, "8 coordinates; the model has 9"):
                    worker.vote(gradient[1:], samples=1, loss=0)
                with self.assertRaisesRegex(ValueError, "items of l"):
                    worker.vote(numpy.ones(9, dtype=int), samples=1, loss=0)
                worker.vote(gradient, samples=1, loss=0)
                with self.assertRaisesRegex(ValueError, "no open round"):
                    worker.vote(gradient, samples=1, loss=0)
        self.ended(server)

    def test_an_absent_gradient_changes_nothing(self):
        numpy.save(self.folder / "first.npy", numpy.zeros(4, dtype="float32"))
        settings = write_toml(self.folder / "run.toml", {"workers": 2, "rounds": 3, "method": "mv"})
        server = self.served(settings, None, "--parameters", self.folder / "first.npy")
        with self.worker(server, 0) as one, self.worker(server, 1) as other:
            first, second = one.join(), other.join()
            # The other one comes first, because its silence is known when it asks for the next round.
            for turn in other:
                self.assertEqual(next(one), turn)
                one.vote(torch.tensor([1.0, 0.0, -1.0, 2.0]), samples=1, loss=0)
                if turn == 0:
                    other.vote(numpy.full(4, numpy.nan), samples=1, loss=0)
                elif turn == 1:
                    other.abstain()  # and nothing is said in the last round
            self.assertIsNone(next(one, None))
            self.assertEqual(first.tolist(), second.tolist())
        self.ended(server)
        self.assertEqual(numpy.sign(first).tolist(), [-1, 0, 1, -1])
        self.assertEqual(summary(server.state)["absences"], 3)

    def test_ctrl_c_ends_a_wait_for_others(self):
        asks = False  # whether a Ctrl-C is wanted, once

        def interrupt(*_):
            nonlocal asks
            if asks:
                asks = False
                raise KeyboardInterrupt

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, interrupt))
        enough = threading.Event()

        def press():
            while not enough.wait(0.1):
                os.kill(os.getpid(), signal.SIGINT)

        keyboard = threading.Thread(target=press)
        self.addCleanup(lambda: enough.set() or keyboard.is_alive() and keyboard.join())
        numpy.save(self.folder / "first.npy", numpy.zeros(4, dtype="float32"))
        settings = write_toml(self.folder / "run.toml", {"workers": 2, "rounds": 3, "method": "mv"})
        server = self.served(settings, None, "--parameters", self.folder / "first.npy")
        with self.worker(server, 0) as one, self.worker(server, 1) as other:
            self.assertEqual((next(one), next(other)), (0, 0))
            one.vote(numpy.ones(4), samples=1, loss=0)
            keyboard.start()
            interrupts = 0
            while True:  # because a Ctrl-C may come just before the wait, which then begins all the same
                try:
                    asks = True
                    if next(one, None) is None:  # the other one has not answered, and cannot in this thread
                        asks = False
                        break
                except KeyboardInterrupt:
                    interrupts += 1
            self.assertGreater(interrupts, 0)
            self.assertEqual((one.round, one.finished), (0, False))

    def test_the_example_trains_a_network_of_its_own(self):
        certificates = Certificates(self.folder / "certs", [f"worker-{slot}" for slot in range(3)])
        first = self.folder / "first.npy"
        subprocess.run([sys.executable, EXAMPLE, "--write", first], env=ENVIRONMENT, check=True, timeout=TIMEOUT)
        options = {"workers": 3, "rounds": 200, "step": 2e-3, "method": "it", "initial_rounds": 10}
        settings = write_toml(self.folder / "run.toml", options)
        server = self.served(settings, certificates, "--parameters", first)
        address = f"127.0.0.1:{server.port}"
        workers = []
        for slot, samples in enumerate((2, 2, 60)):
            tls = ["--ca", certificates.authority, *certificates.of(f"worker-{slot}")]
            command = [sys.executable, EXAMPLE, address, "--samples", samples, *tls]
            process = subprocess.Popen(
                # One thread each, because those of three that wait for each other would keep this machine busy.
                [str(word) for word in command],
                env={**ENVIRONMENT, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                text=True,
            )
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            workers.append(process)
        said = [process.communicate(timeout=TIMEOUT)[0].splitlines()[-1] for process in workers]
        self.ended(server)
        self.assertEqual([process.returncode for process in workers], [0, 0, 0])
        self.assertEqual(len(set(said)), 1, said)
        self.assertRegex(said[0], r"^accuracy after 200 rounds: ([7-9]\d|100)\.")
        self.assertEqual(summary(server.state)["batches_used"], [2, 2, 60])


if __name__ == "__main__":
    main()
