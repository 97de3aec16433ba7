"""What the package says of itself: examples in docstrings work, stubs have what the module has, and everything that
is public is explained."""

import ast
import doctest
import pathlib
import subprocess
import sys
import unittest

import signvote
import signvote._core as core
from suite import main

OWN = {"__init__", "__len__", "__getitem__", "__setitem__"}  # what a stub has of the names with underscores


def public(scope):
    return {name: value for name, value in vars(scope).items() if not name.startswith("_") or name in OWN}


def documented(scope, prefix):
    """(name, docstring) of everything public in the module."""
    for name, value in public(scope).items():
        if not name.startswith("_") and not prefix.endswith("MessageHeader."):
            yield prefix + name, value.__doc__
        if isinstance(value, type):
            yield from documented(value, f"{prefix}{name}.")


class Documentation(unittest.TestCase):
    def test_examples_give_what_they_show(self):
        runner = doctest.DocTestRunner(verbose=False)
        parser = doctest.DocTestParser()
        examples = 0
        for name, text in [("signvote", signvote.__doc__), *documented(core, "")]:
            test = parser.get_doctest(text or "", {**public(core), "signvote": signvote}, name, None, 0)
            examples += len(test.examples)
            runner.run(test)
        self.assertEqual(runner.summarize().failed, 0)
        self.assertGreater(examples, 30)

    def test_everything_public_is_explained(self):
        plain = {"workers", "begin", "end", "method", "initial_rounds", "clip", "round"}  # as in the class's docstring
        for name, text in documented(core, ""):
            if name.split(".")[-1] not in plain:
                self.assertTrue(text, name)

    def test_stubs_have_the_names_of_the_module(self):
        stub = ast.parse(pathlib.Path(signvote.__file__).with_name("_core.pyi").read_text())
        classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef) if node.name[0] != "_"}
        functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
        self.assertEqual(functions | classes.keys(), public(core).keys())
        for name, node in classes.items():
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            self.assertEqual(members, public(getattr(core, name)).keys() - {"with_traceback"}, name)
        self.assertEqual(set(signvote.__all__) - {"__version__"}, public(core).keys())

    def test_the_package_needs_no_torch(self):
        program = "import sys; sys.modules['torch'] = None; import signvote; signvote.Tally(workers=1, end=1)"
        self.assertEqual(subprocess.run([sys.executable, "-c", program]).returncode, 0)


if __name__ == "__main__":
    main()
