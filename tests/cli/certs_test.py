"""Certificates as a user makes them."""

import stat
import subprocess

from command_line import Case, contents, main


class Certs(Case):
    def openssl(self, *arguments):
        return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)

    def make_all(self, folder):
        self.succeed("certs", "new-ca", folder)
        self.succeed("certs", "server", folder, "--host", "localhost", "--host", "127.0.0.1")
        self.succeed("certs", "worker", folder, "--name", "ann", "--name", "bob")

    def test_openssl_accepts_the_chain(self):
        folder = self.folder / "certs"
        self.make_all(folder)
        names = {f"{name}.{kind}" for name in ("ca", "server", "ann", "bob") for kind in ("pem", "key")}
        self.assertEqual(set(contents(folder)), names)
        for name, purpose in (("server", "sslserver"), ("ann", "sslclient"), ("bob", "sslclient")):
            result = self.openssl("verify", "-CAfile", folder / "ca.pem", "-purpose", purpose, folder / f"{name}.pem")
            self.assertEqual(result.returncode, 0, result.stderr)
        for key in folder.glob("*.key"):
            self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600, key)

    def test_what_was_written_is_printed(self):
        result = self.succeed("certs", "new-ca", self.folder, "--days", 30)
        self.assertIn(f"{self.folder}/ca.pem and {self.folder}/ca.key: an authority for 30 days", result.stdout)
        result = self.succeed("certs", "server", self.folder, "--host", "localhost", "--host", "::1")
        self.assertIn("server.pem", result.stdout)
        self.assertIn("825 days, as localhost, ::1", result.stdout)
        result = self.succeed("certs", "worker", self.folder, "--name", "ann", "--name", "bob", "--days", 7)
        self.assertEqual(len(result.stdout.splitlines()), 2)
        self.assertRegex(result.stdout, r"bob.key: the worker bob's, for 7 days; its key is sha256:[0-9a-f]{64}\n")

    def test_certificates_last_as_many_days_as_asked(self):
        self.succeed("certs", "new-ca", self.folder, "--days", 30)
        for seconds, code in ((29 * 86400, 0), (31 * 86400, 1)):
            result = self.openssl("x509", "-in", self.folder / "ca.pem", "-noout", "-checkend", seconds)
            self.assertEqual(result.returncode, code)

    def test_nothing_is_overwritten(self):
        self.make_all(self.folder)
        before = contents(self.folder)
        self.refuse(2, "certs", "new-ca", self.folder, says="ca.key' is there already")
        self.refuse(2, "certs", "server", self.folder, "--host", "a", says="server.key' is there already")
        self.refuse(2, "certs", "worker", self.folder, "--name", "ann", says="ann.key' is there already")
        self.assertEqual(contents(self.folder), before)

    def test_bad_input_is_refused(self):
        empty = self.folder / "empty"
        self.refuse_each(
            2,
            [
                (["certs"], "see signvote certs --help"),
                (["certs", "new-ca"], "folder is required"),
                (["certs", "new-ca", empty, "--days", 0], "--days"),
                (["certs", "new-ca", empty, "--days", "many"], "--days"),
                (["certs", "server", empty], "--host is required"),
                (["certs", "worker", empty], "--name is required"),
                (["certs", "worker", empty, "--name", "ann"], "signvote certs new-ca"),
                (["certs", "worker", empty, "--name", "../ann"], "the worker's name '../ann' must be"),
                (["certs", "server", empty, "--host", "localhost:7000"], "write it without a port"),
                (["certs", "sever", empty], "did you mean server?"),
            ],
        )
        self.assertEqual(contents(self.folder), {})

    def test_a_folder_that_cannot_be_written_is_named(self):
        (self.folder / "file").write_text("")
        self.refuse(1, "certs", "new-ca", self.folder / "file", says="file")

    def test_help_has_examples(self):
        for command in ([], ["new-ca"], ["server"], ["worker"]):
            self.assertIn("Examples:", self.succeed("certs", *command, "--help").stdout)


if __name__ == "__main__":
    main()
