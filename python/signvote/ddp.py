"""The vote in place of the all-reduce of PyTorch's DistributedDataParallel (DDP): one line in a training program.

    model = DistributedDataParallel(net)
    vote = signvote.ddp.register(model)                        # this one
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)   # each step moves a parameter by lr, or not at all

Every rank is a worker. Instead of the mean of all ranks' gradients, backward() leaves the verdict in .grad: 1, -1
or 0 for each coordinate, the same on all ranks. So any optimizer works; with SGD, lr is signvote's delta. Ranks may
have batches of different sizes: the vote learns whom to trust.

Each parameter is cut into as many parts as there are ranks, and a rank decides its part of each. For a bucket of
parameters that DDP has ready, every rank sends each rank the signs of its parts, decides its own by what it was
sent, and sends all ranks the verdict. What is learnt belongs to parameters and not to buckets, which DDP makes
anew after the first step. All this happens in a thread of its own, while DDP computes the next bucket; buckets
follow each other, in the same order on all ranks.
"""

import concurrent.futures
import struct
from typing import Any, Dict, List, Optional, Tuple

import numpy
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from ._core import DataError, MessageHeader, SignVector, Tally, decode, encode, pack, step

WORD = 64  # coordinates in a word of a SignVector
FRAME = struct.Struct("<Q?")  # before each message: its length, and whether its sender has more than rooms hold
LENGTH = struct.Struct("<Q")  # before each piece of a rank's state
NO_SUMS = numpy.zeros(0, "int64")

Planes = Tuple[numpy.ndarray, numpy.ndarray]  # `present` and `negative`


def register(
    model: DistributedDataParallel,
    method: str = "it",
    *,
    sign_of: str = "gradient",
    process_group: Optional[torch.distributed.ProcessGroup] = None,
    **options: Any,
) -> "Vote":
    """Makes `model` vote on its gradients from now on. All ranks must call this, in the same order.

    `method` and `options` (initial_rounds, clip, prior_rounds, forget) are those of signvote.Tally. A rank votes
    with the signs of its gradient, or of its own momentum ("momentum:0.9"), or of Lion's mix of both
    ("lion:0.9,0.99"): then give the optimizer no momentum of its own. The votes travel through `process_group`,
    which nobody else may use meanwhile; by default it is a new one of Gloo, because the tally runs on the CPU,
    whatever the model runs on.
    """
    vote = Vote(model, process_group, sign_of, method=method, **options)
    model.register_comm_hook(vote, _on_bucket)
    return vote


def _on_bucket(vote, bucket):
    return vote._take(bucket)


class Vote:
    """The vote of one model, as this rank sees it. `register` makes it.

    steps       steps voted on so far
    bytes_sent  bytes that this rank has sent to others, for votes and for state_dict
    absences    for each rank, the buckets in which it had no vote, because its gradient was NaN or infinite
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        process_group: Optional[torch.distributed.ProcessGroup],
        sign_of: str = "gradient",
        **options: Any,
    ) -> None:
        if not isinstance(model, DistributedDataParallel):
            raise ValueError("the model must be a DistributedDataParallel: wrap it before you register the vote")
        for name, module in model.module.named_modules():
            if getattr(module, "sparse", False) is True:
                raise ValueError(
                    f"'{name}' makes sparse gradients, which cannot be voted on: make it with sparse=False"
                )
        if process_group is None:
            if torch.distributed.get_world_size(model.process_group) != torch.distributed.get_world_size():
                raise ValueError("the model is on some of the ranks: pass a process_group of these ranks for the vote")
            process_group = torch.distributed.new_group(backend="gloo")
        self._group = process_group
        self._rank = torch.distributed.get_rank(process_group)
        self._ranks = torch.distributed.get_world_size(process_group)
        on_gpu = torch.distributed.get_backend(process_group) == "nccl"  # it takes nothing from the CPU
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        self._options = options
        self._sign_of = sign_of
        self._betas = _betas_of(sign_of)
        self._shards: Dict[str, _Shard] = {}
        self._shard_of: Dict[int, _Shard] = {}  # by the parameter's id
        for name, parameter in model.module.named_parameters():
            if parameter.requires_grad:
                shard = _Shard(parameter.numel(), self._ranks, len(self._shards))
                shard.tally = self._new_tally(shard, self._ranks)
                shard.momentum = None if self._betas is None else numpy.zeros(shard.size, "float32")
                self._shards[name] = self._shard_of[id(parameter)] = shard
        self._layouts: Dict[Tuple[_Shard, ...], _Layout] = {}
        self._votes = 0
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "signvote")
        self._mail: Tuple[torch.Tensor, ...] = ()
        self.steps = 0
        self.bytes_sent = 0
        self.absences = [0] * self._ranks

    def state_dict(self) -> Dict[str, Any]:
        """What was learnt, of all parameters, and each rank's momentum: for each rank and coordinate 2 bytes (none
        for mv and agree), and 4 of momentum. All ranks must call this."""
        shards = self._shards.values()
        mine = [shard.tally.snapshot() for shard in shards]
        if self._betas is not None:
            mine += [shard.momentum.tobytes() for shard in shards]
        rooms = _Rooms([0] * self._ranks, [0] * self._ranks)
        received = self._on_thread(self._exchange, [_framed(mine)] * self._ranks, rooms)
        ranks = [_unframed(message, len(mine)) for message in received]
        pieces = list(zip(*ranks))  # each of all ranks; as tensors, which torch.load takes in all its modes
        snapshots = [[_tensor(piece, "uint8") for piece in each] for each in pieces[: len(shards)]]
        momenta = [[_tensor(piece, "float32") for piece in each] for each in pieces[len(shards) :]]
        return {
            "steps": self.steps,
            "absences": list(self.absences),
            "sign_of": self._sign_of,
            "snapshots": dict(zip(self._shards, snapshots)),
            "momenta": dict(zip(self._shards, momenta)),
        }

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Goes on from a state, which may be of another number of ranks: rank r then is what rank r was, and those
        that were not there have never voted. Each rank must load the same state. Raises DataError, and changes
        nothing, if the state does not fit the model or the options."""
        snapshots, absences = state["snapshots"], state["absences"]
        if snapshots.keys() != self._shards.keys():
            names = sorted(snapshots.keys() ^ self._shards.keys())
            raise DataError(f"the state is of another model: only one of the two has the parameter '{names[0]}'")
        sign_of = state.get("sign_of", self._sign_of)  # older states do not tell
        if _betas_of(sign_of) != self._betas:
            raise DataError(f"the state is of votes with sign_of='{sign_of}', not '{self._sign_of}'")
        momenta = {}
        tallies = []
        for name, shard in self._shards.items():
            tally = self._new_tally(shard, workers=len(absences))
            try:
                tally.restore(snapshots[name])
            except DataError as error:
                raise DataError(f"parameter '{name}': {error}") from None
            tally.set_workers(self._ranks)
            tallies.append(tally)
            if shard.momentum is not None:
                kept = state["momenta"].get(name, [])[self._rank : self._rank + 1]  # a new rank has none yet
                momenta[name] = kept[0].numpy() if kept else numpy.zeros_like(shard.momentum)
                if momenta[name].shape != shard.momentum.shape:
                    raise DataError(f"parameter '{name}': its momentum is of {momenta[name].size} coordinates")
        for (name, shard), tally in zip(self._shards.items(), tallies):
            shard.tally = tally
            if shard.momentum is not None:
                shard.momentum[:] = momenta[name]
        self.steps = state["steps"]
        self.absences = (list(absences) + [0] * self._ranks)[: self._ranks]

    def _new_tally(self, shard: "_Shard", workers: int) -> Tally:
        first, last = shard.parts[self._rank]
        begin, end = (min(word * WORD, shard.size) for word in (first, last))
        return Tally(workers=workers, begin=begin, end=end, **self._options)

    def _take(self, bucket: torch.distributed.GradBucket) -> torch.futures.Future:
        """A bucket is ready: begins its vote. Its future gets the bucket's buffer, with the verdict."""
        buffer = bucket.buffer()
        if buffer.is_sparse:
            raise ValueError("sparse gradients cannot be voted on")
        shards = tuple(self._shard_of[id(parameter)] for parameter in bucket.parameters())
        gradient = buffer.cpu()  # itself, if it is there; from a GPU it waits for the copy
        voting = self._thread.submit(self._vote, gradient, shards, bucket.is_last())

        def write(_):
            verdict = voting.result()
            return buffer if verdict is buffer else buffer.copy_(verdict)

        # In a `then`, because DDP sees what a future was told only if it is a tensor, but what `then` raises it
        # raises too; and because on a GPU this copy must be on the streams that belong to the future.
        voted: torch.futures.Future = torch.futures.Future(
            devices=None if buffer.device.type == "cpu" else [buffer.device]
        )
        future = voted.then(write)
        voting.add_done_callback(lambda _: voted.set_result(None))
        return future

    def _on_thread(self, function, *arguments):
        return self._thread.submit(function, *arguments).result()

    def _vote(self, gradient: torch.Tensor, shards: Tuple["_Shard", ...], ends_step: bool) -> torch.Tensor:
        layout = self._layouts.get(shards)
        if layout is None:
            layout = self._layouts[shards] = _Layout(shards, self._ranks, self._rank)
        received = self._exchange(self._ballots(gradient, layout), layout.ballot_rooms)
        message = encode(self._header("verdict", layout.size_of(self._rank)), self._decide(received, layout))
        # After the step's last bucket also what a method learns over the whole model, which all tallies are told.
        sums = numpy.sum([shard.tally.pooled() for shard in self._shards.values()], axis=0) if ends_step else NO_SUMS
        parts = self._exchange([message + sums.tobytes()] * self._ranks, layout.verdict_rooms)
        verdicts = [
            decode(part[: len(part) - sums.nbytes], self._header("verdict", layout.size_of(rank)))
            for rank, part in enumerate(parts)
        ]
        self._votes += 1
        if ends_step:
            self._end_step([numpy.frombuffer(part[len(part) - sums.nbytes :], sums.dtype) for part in parts])
        return self._signs(gradient, verdicts, layout)

    def _end_step(self, sums: List[numpy.ndarray]) -> None:
        total = numpy.sum(sums, axis=0)
        if len(total) > 0:
            for shard in self._shards.values():
                shard.tally.set_pooled(total)
        self.steps += 1

    def _header(self, kind: str, size: int, worker: int = 0) -> MessageHeader:
        # The round counts buckets, so ranks that take them in different orders are told so and not mixed up.
        return MessageHeader(kind=kind, round=self._votes, worker=worker, size=size)

    def _ballots(self, gradient: torch.Tensor, layout: "_Layout") -> List[bytes]:
        """This rank's ballot on each rank's parts; empty messages if its gradient is not finite."""
        if gradient.dtype == torch.float16:
            gradient = gradient.float()  # the kernels know no float16
        if self._betas is not None:
            gradient = gradient.float()  # as momenta are
        packed = [
            signs
            for shard, values in zip(layout.shards, gradient.split(layout.sizes))
            if (signs := self._signs_of(values, shard)) is not None
        ]
        if len(packed) < len(layout.sizes):
            return [b""] * self._ranks
        present, negative = (plane[layout.order] for plane in _joined(packed))
        messages = []
        for rank in range(self._ranks):
            words = layout.words_of(rank)
            ballot = _sign_vector(layout.size_of(rank), (present[words], negative[words]))
            messages.append(encode(self._header("ballot", ballot.size, self._rank), ballot))
        return messages

    def _signs_of(self, gradient: torch.Tensor, shard: "_Shard") -> Optional[SignVector]:
        if self._betas is None:
            return pack(gradient)
        return pack(gradient, momentum=shard.momentum, betas=self._betas)

    def _decide(self, messages: List[bytes], layout: "_Layout") -> SignVector:
        """The verdict on this rank's parts, by all ranks' ballots on them."""
        size = layout.size_of(self._rank)
        ballots: List[Optional[Planes]] = []
        for worker, message in enumerate(messages):
            if len(message) == 0:
                self.absences[worker] += 1
                ballots.append(None)
            else:
                ballot = decode(message, self._header("ballot", size, worker))
                ballots.append((ballot.present, ballot.negative))
        verdict = SignVector(size)
        present, negative = verdict.present, verdict.negative
        first = 0
        for shard in layout.shards:
            words = slice(first, first + shard.words_of(self._rank))
            first = words.stop
            part = shard.tally.decide(
                [ballot and _sign_vector(shard.tally.size, (ballot[0][words], ballot[1][words])) for ballot in ballots]
            )
            present[words], negative[words] = part.present, part.negative
        return verdict

    def _signs(self, gradient: torch.Tensor, verdicts: List[SignVector], layout: "_Layout") -> torch.Tensor:
        """The verdict as 1, -1 and 0: in the gradient's own memory if it is of float32."""
        present, negative = (layout.in_buffer_order(plane) for plane in _joined(verdicts))
        signs = gradient.zero_() if gradient.dtype == torch.float32 else torch.zeros(len(gradient))
        first = 0
        for values in signs.split(layout.sizes):
            words = slice(first, first + _words(len(values)))
            first = words.stop
            step(values, _sign_vector(len(values), (present[words], negative[words])), -1.0)  # 0 - (-1) * U
        return signs

    def _exchange(self, messages: List[bytes], rooms: "_Rooms") -> List[bytes]:
        """Sends messages[r] to rank r, and returns what each rank has sent to this one.

        It is one collective as a rule, because each waits for the slowest rank and for the line there and back. So
        each message has a room, whose size both sides know beforehand. What is too long for its room follows in a
        second one: the ranks tell each other whether there is any.
        """
        follows = any(len(message) > room for message, room in zip(messages, rooms.sent))
        slots = [
            FRAME.pack(len(message), follows) + message[:room].ljust(room, b"\0")
            for message, room in zip(messages, rooms.sent)
        ]
        coming = self._all_to_all(slots, [FRAME.size + room for room in rooms.coming])
        frames = [FRAME.unpack_from(slot) for slot in coming]
        received = [slot[FRAME.size : FRAME.size + length] for slot, (length, _) in zip(coming, frames)]
        if any(follows for _, follows in frames):
            tails = [message[room:] for message, room in zip(messages, rooms.sent)]
            lengths = [max(0, length - room) for (length, _), room in zip(frames, rooms.coming)]
            received = [head + tail for head, tail in zip(received, self._all_to_all(tails, lengths))]
        rooms.fit([len(message) for message in messages], [len(message) for message in received])
        return received

    def _all_to_all(self, parts: List[bytes], lengths: List[int]) -> List[bytes]:
        """Sends parts[r] to rank r, and returns the lengths[r] bytes that rank r has sent to this one."""
        sent = torch.from_numpy(numpy.frombuffer(bytearray().join(parts), "uint8")).to(self._device)
        received = torch.empty(sum(lengths), dtype=torch.uint8, device=self._device)
        splits = [len(part) for part in parts]
        torch.distributed.all_to_all_single(received, sent, lengths, splits, group=self._group)
        # Gloo's thread lets go of them a little later. To free one it would need the interpreter's lock, with which
        # destroy_process_group waits for that thread: so they are kept until the next.
        self._mail = sent, received
        self.bytes_sent += len(sent) - splits[self._rank]
        return [part.tobytes() for part in numpy.split(received.cpu().numpy(), numpy.cumsum(lengths)[:-1])]


class _Rooms:
    """How many bytes are set aside for the messages to and from each rank: a little more than the longest of late
    took, because one is much like the next."""

    def __init__(self, sent: List[int], coming: List[int]) -> None:
        self.sent, self.coming = [0] * len(sent), [0] * len(coming)
        self.fit(sent, coming)

    def fit(self, sent: List[int], coming: List[int]) -> None:
        for rooms, lengths in ((self.sent, sent), (self.coming, coming)):
            rooms[:] = [max(length + length // 64 + 32, room - room // 32) for length, room in zip(lengths, rooms)]


class _Shard:
    """A parameter in parts, one for each rank: parts[r] is (first, last) of rank r's words. Its tally is that of
    this rank's part, its momentum this rank's own of the whole parameter."""

    tally: Tally
    momentum: Optional[numpy.ndarray]

    def __init__(self, size: int, ranks: int, number: int) -> None:
        self.size = size
        words = _words(size)
        cuts = [words * i // ranks for i in range(ranks + 1)]
        # Each parameter begins at another rank, because otherwise one rank would have all the short ones.
        self.parts = [(cuts[i], cuts[i + 1]) for i in ((rank + number) % ranks for rank in range(ranks))]

    def words_of(self, rank: int) -> int:
        first, last = self.parts[rank]
        return last - first


class _Layout:
    """Where the words of a bucket are: in the buffer's order, parameter by parameter, each beginning a word; and as
    they are sent, rank by rank, for each its parts of these parameters."""

    def __init__(self, shards: Tuple[_Shard, ...], ranks: int, own: int) -> None:
        self.shards = shards
        self.sizes = [shard.size for shard in shards]
        begins = numpy.cumsum([0] + [_words(size) for size in self.sizes])
        # order[i] is the place in the buffer of word i as it is sent.
        self.order = numpy.concatenate(
            [
                numpy.arange(begin + shard.parts[rank][0], begin + shard.parts[rank][1])
                for rank in range(ranks)
                for begin, shard in zip(begins, shards)
            ]
        )
        self._edges = numpy.cumsum([0] + [sum(shard.words_of(rank) for shard in shards) for rank in range(ranks)])
        # As for a message of a bit for each coordinate.
        expected = [self.size_of(rank) // 8 for rank in range(ranks)]
        self.ballot_rooms = _Rooms(expected, [expected[own]] * ranks)
        self.verdict_rooms = _Rooms([expected[own]] * ranks, expected)

    def words_of(self, rank: int) -> slice:
        return slice(self._edges[rank], self._edges[rank + 1])

    def size_of(self, rank: int) -> int:
        """The coordinates that a rank decides, each part filled up to whole words."""
        return int(self._edges[rank + 1] - self._edges[rank]) * WORD

    def in_buffer_order(self, plane: numpy.ndarray) -> numpy.ndarray:
        ordered = numpy.empty_like(plane)
        ordered[self.order] = plane
        return ordered


def _betas_of(sign_of: str) -> Optional[Tuple[float, float]]:
    """What `pack` takes; None for the gradient itself."""
    kind, _, numbers = sign_of.partition(":")
    try:
        betas = [float(number) for number in numbers.split(",")] if numbers else []
    except ValueError:
        betas = []
    expected = {"gradient": 0, "momentum": 1, "lion": 2}.get(kind)
    if (kind, numbers) == ("gradient", ""):
        return None
    if not betas or len(betas) != expected or not all(0 <= beta < 1 for beta in betas):
        raise ValueError(
            f"sign_of is '{sign_of}'; it must be 'gradient', 'momentum:B' or 'lion:B1,B2', with each B from 0 to below 1"
        )
    return betas[0], betas[-1]


def _framed(pieces: List[bytes]) -> bytes:
    return b"".join(LENGTH.pack(len(piece)) + piece for piece in pieces)


def _unframed(message: bytes, count: int) -> List[memoryview]:
    """The pieces of a message that another rank has sent."""
    rest = memoryview(message)
    pieces = []
    while len(rest) >= LENGTH.size:
        end = LENGTH.size + LENGTH.unpack_from(rest)[0]
        pieces.append(rest[LENGTH.size : end])
        rest = rest[end:]
    if len(pieces) != count or len(rest) > 0:
        raise DataError("a rank's state is not that of this model; do all ranks run the same program?")
    return pieces


def _tensor(piece: memoryview, dtype: str) -> torch.Tensor:
    return torch.from_numpy(numpy.frombuffer(piece, dtype).copy())


def _words(size: int) -> int:
    return -(-size // WORD)


def _joined(vectors: List[SignVector]) -> Planes:
    present = numpy.concatenate([signs.present for signs in vectors])
    return present, numpy.concatenate([signs.negative for signs in vectors])


def _sign_vector(size: int, planes: Planes) -> SignVector:
    signs = SignVector(size)
    signs.present[:], signs.negative[:] = planes
    return signs
