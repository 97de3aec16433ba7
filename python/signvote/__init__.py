"""signvote: train one model on unequal machines, with about one bit per parameter per round.

Ballots are the signs of gradients, a tally decides each coordinate and learns whom to trust, and everybody steps
by the verdict. Arrays are NumPy's, or of any library with the buffer protocol or DLPack; none is copied.
`signvote.ddp`, which needs PyTorch, puts the vote in place of the all-reduce of DistributedDataParallel.

>>> import numpy, signvote
>>> gradients = numpy.array([[1, 2, -3], [2, 1, 5], [4, -1, -1]], dtype="float32")   # of three workers
>>> parameters = numpy.zeros(3, dtype="float32")
>>> tally = signvote.Tally(workers=3, end=3)
>>> verdict = tally.decide([signvote.pack(gradient) for gradient in gradients])
>>> signvote.step(parameters, verdict, 0.5)
>>> parameters
array([-0.5, -0.5,  0.5], dtype=float32)
"""

from ._core import (
    BallotBox,
    ConfigError,
    DataError,
    EngineError,
    Error,
    MessageHeader,
    SignVector,
    Tally,
    __version__,
    decode,
    decode_header,
    encode,
    pack,
    step,
)

__all__ = [
    "BallotBox",
    "ConfigError",
    "DataError",
    "EngineError",
    "Error",
    "MessageHeader",
    "SignVector",
    "Tally",
    "__version__",
    "decode",
    "decode_header",
    "encode",
    "pack",
    "step",
]


def __getattr__(name):
    # Worker needs gRPC, so it is loaded when it is first used, and absent where gRPC was not built.
    if name != "Worker":
        raise AttributeError(f"module 'signvote' has no attribute '{name}'")
    try:
        from ._worker import Worker
    except ModuleNotFoundError as error:
        raise AttributeError(
            "signvote.Worker needs gRPC, without which this package was built; see docs/python.md"
        ) from error
    return Worker
