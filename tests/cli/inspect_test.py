"""signvote inspect: what the tally of a run has learnt, on all engines alike."""

import json

from command_line import Case, config, main, summary, write_toml
from conformance_test import mpirun
from generated_data import mnist
from server_and_workers import Server, Worker

# Five workers, of whom the first lies, and weights that are in force at the end; saved in the middle only.
LIAR = {
    "data": mnist(),
    "batches": "16,16,16,16,40",
    "attack": "flip:1",
    "rounds": 12,
    "initial_rounds": 3,
    "prior_rounds": 2,
    "save_every": 5,
    "eval_every": 12,
    "threads": 1,
}


class Inspect(Case):
    def local(self, name="local", **settings):
        out = self.folder / name
        file = write_toml(self.folder / "run.toml", {**LIAR, **settings})
        self.succeed("train", "--config", file, "--out", out)
        return out

    def inspect(self, out, *flags):
        return json.loads(self.succeed("inspect", out, "--json", *flags).stdout)

    def test_a_liar_is_marked_and_the_numbers_are_those_of_the_run(self):
        for method in ("it", "shrink", "agree"):
            with self.subTest(method=method):
                out = self.local(method, method=method)
                told = self.inspect(out)
                self.assertFalse((out / "inspect.png").exists())
                workers = told["workers"]
                self.assertEqual([w["mark"] for w in workers], ["liar?", "", "", "", ""])
                self.assertEqual([w["batch"] for w in workers], [16, 16, 16, 16, 40])
                self.assertEqual([w["rounds"] for w in workers], [12] * 5)
                self.assertLess(workers[0]["weight"], 0)
                self.assertGreater(workers[0]["error_rate"], 0.5)
                self.assertAlmostEqual(sum(w["say"] for w in workers), 1)
                if method == "agree":
                    rows = told["agreement"]
                    self.assertTrue(all(rows[i][i] is None for i in range(5)))
                    self.assertTrue(all(rows[i][j] == rows[j][i] for i in range(5) for j in range(5)))
                    self.assertLess(rows[0][4], 0.5)
                    self.assertGreater(rows[1][4], 0.5)
                else:
                    rates = summary(out)["mean_error_rates"]
                    size = sum(layer["size"] for layer in told["layers"])
                    self.assertEqual(size, summary(out)["parameters"])
                    self.assertEqual(told["layers"][0]["name"], "conv1.weight")
                    for m, worker in enumerate(workers):
                        self.assertAlmostEqual(worker["error_rate"], rates[m])
                        mean = sum(layer["size"] * layer["error_rates"][m] for layer in told["layers"]) / size
                        self.assertAlmostEqual(mean, rates[m])
                table = self.succeed("inspect", out).stdout
                self.assertRegex(table, r"\n +0 +16 +12 .*  liar\?\n")
                self.assertTrue((out / "inspect.png").read_bytes().startswith(b"\x89PNG"))

    def test_all_engines_show_the_same(self):
        for method in ("shrink", "agree"):
            with self.subTest(method=method):
                local = self.local("local-" + method, method=method)
                expected = self.inspect(local)
                out = self.folder / ("mpi-" + method)
                result = mpirun(2, "train", "--config", self.folder / "run.toml", "--out", out, "--engine", "mpi")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(self.inspect(out), {**expected, "engine": "mpi"})
                (self.folder / method).mkdir()
                server = Server(self.folder / method, self.folder / "run.toml", None)
                self.addCleanup(server.close)
                server.start()
                workers = [
                    Worker(f"worker-{m}", self.folder / method, server, None, mnist(), "--threads", 1) for m in range(5)
                ]
                for worker in workers:
                    self.addCleanup(worker.close)
                    worker.start()
                for program in (server, *workers):
                    self.assertEqual(program.wait(), 0, program.tail(40))
                told = self.inspect(server.state)
                self.assertEqual(
                    sorted(worker.pop("owner") for worker in told["workers"]), [f"worker-{m}" for m in range(5)]
                )
                self.assertEqual(told, {**expected, "engine": config(server.state)["engine"]})

    def test_a_worker_in_its_initial_phase_is_new(self):
        told = self.inspect(self.local(initial_rounds=20))
        self.assertFalse(told["weighted"])
        self.assertEqual({(w["mark"], w["say"]) for w in told["workers"]}, {("new", 0.2)})

    def test_a_method_that_learns_nothing_says_so(self):
        for method in ("mv", "oracle"):
            out = self.local(method, method=method, rounds=2)
            table = self.succeed("inspect", out).stdout
            self.assertIn(f"The method {method} learns nothing", table)
            self.assertFalse((out / "inspect.png").exists())
            self.assertEqual([w["rounds"] for w in self.inspect(out)["workers"]], [2] * 5)

    def test_a_bad_folder_or_a_damaged_checkpoint_is_one_line(self):
        self.refuse(2, "inspect", self.folder, says="holds no run")
        self.refuse(2, "inspect", self.folder / "nowhere", says="holds no run")
        out = self.local(rounds=2)
        file = out / "checkpoint.bin"
        whole = file.read_bytes()
        file.write_bytes(whole[:-20] + bytes(20))
        self.refuse(1, "inspect", out, says="checkpoint.bin")
        file.write_bytes(whole[:1000])
        self.refuse(1, "inspect", out, says="checkpoint.bin")
        file.unlink()
        self.refuse(1, "inspect", out, says=["no checkpoint.bin yet", "5 rounds"])


if __name__ == "__main__":
    main()
