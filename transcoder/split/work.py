"""What an attempt of a file job does: the whole of it, the cutting, one piece, or putting pieces together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.errors import PiecesDiffer
from pipelines.result import Progress
from pipelines.stitch import joining
from pipelines.stitch.cuts import spec_refusal
from pipelines.stitch.piece import PieceResult
from pipelines.stitch.tasks import CutRules, Cutting
from transcoder.attempts import settlement
from transcoder.attempts.filework import Bench, Work
from transcoder.attempts.settlement import Completed, Ticket
from transcoder.children.watch import ChildEvent
from transcoder.database import Database
from transcoder.engine import DeviceState
from transcoder.queueing.queues import read_queues
from transcoder.split import family
from transcoder.split.rules import SplitSettings, cut_rules
from transcoder.split.values import PIECES_SHARE, Cut, Encoded, NewPiece, Piece, stamp_of, while_joining

OFF = "in one: this service cuts nothing"
JOINED = "the pieces are all there: they are put together"


@dataclass(frozen=True)
class Splitter:
    """`states`: the devices as they are now."""

    database: Database
    bench: Bench
    settings: SplitSettings
    states: Callable[[], Sequence[DeviceState]]

    async def run(self, work: Work) -> Completed | Cut | Encoded:
        if work.claim.number:
            return await self._encode(work)
        if work.course.gpu is not None or spec_refusal(work.spec) is not None:
            return await self.bench.whole(work)
        pieces = await self._pieces(work) if work.claim.attempt > 1 else ()
        if pieces:
            return await self._join(work, pieces)
        rules = await self._rules(work)
        if rules is None:
            return await self.bench.whole(work, OFF if work.spec.split == "always" else None)
        return await self._cut(work, rules)

    async def _pieces(self, work: Work) -> tuple[Piece, ...]:
        async with self.database.read() as connection:
            return await family.read(connection, work.claim.job_id)

    async def _rules(self, work: Work) -> CutRules | None:
        claim, spec, states = work.claim, work.spec, self.states()
        rules = cut_rules(spec, claim.device.id, states, self.settings)
        if rules is None or spec.split == "always":
            return rules
        async with self.database.read() as connection:
            queue = (await read_queues(connection, [spec.queue])).get(spec.queue)
        return rules if queue is None else cut_rules(spec, claim.device.id, states, self.settings, queue.takes)

    async def _cut(self, work: Work, rules: CutRules) -> Completed | Cut:
        source = await asyncio.to_thread(stamp_of, work.source.path)
        told = await self.bench.child(work, "cut", {"rules": rules.model_dump(mode="json")})
        cutting = Cutting.model_validate(told["cutting"])
        if not cutting.pieces:
            return await self.bench.publish(work, told["result"], f"in one: {cutting.reason}")
        new = (NewPiece(spec, seconds) for spec, seconds in zip(cutting.pieces, cutting.seconds, strict=True))
        return Cut(tuple(new), source)

    async def _encode(self, work: Work) -> Encoded:
        claim = work.claim
        async with self.database.read() as connection:
            piece = await family.read_piece(connection, claim.task_id)
        if await asyncio.to_thread(stamp_of, work.source.path) != piece.source:
            return Encoded(None)
        told = await self.bench.child(work, "piece", {"piece": piece.spec.model_dump(mode="json")})
        result = PieceResult.model_validate(told)
        await self.bench.storage.pieces.publish(
            claim.job_id, claim.number, claim.attempt, work.folder, stopped=work.stop.requested.is_set
        )
        return Encoded(result)

    async def _join(self, work: Work, pieces: Sequence[Piece]) -> Completed:
        why = await self._obstacle(work, pieces)
        if why is None:
            claim = work.claim
            async with self.database.write() as connection:
                await settlement.give_reason(connection, Ticket(claim.job_id, claim.task_id, claim.attempt), JOINED)
            try:
                return await self._joined(work, pieces)
            except PiecesDiffer as error:
                why = str(error)
        await work.note(f"the pieces can't be put together: {why}; the job is done in one")
        folder = work.folder.with_name("whole")
        await asyncio.to_thread(folder.mkdir)
        return await self.bench.whole(work.into(folder), f"in one: {why}")

    async def _obstacle(self, work: Work, pieces: Sequence[Piece]) -> str | None:
        stamp = await asyncio.to_thread(stamp_of, work.source.path)
        if any(piece.source != stamp for piece in pieces):
            return "the input has changed since it was cut"
        missing = await asyncio.to_thread(self.bench.storage.pieces.missing, work.claim.job_id, pieces)
        return None if missing is None else f"piece {missing.number} is gone"

    async def _joined(self, work: Work, pieces: Sequence[Piece]) -> Completed:
        def hear(event: ChildEvent) -> None:
            if event.kind == "progress":
                progress = while_joining(Progress.model_validate(event.data))
                event = ChildEvent("progress", progress.model_dump(mode="json"))
            work.hear(event)

        shelf, job_id = self.bench.storage.pieces, work.claim.job_id
        work.hear(ChildEvent("progress", Progress(fraction=PIECES_SHARE).model_dump(mode="json")))
        there = [
            joining.Piece(path=shelf.path(job_id, piece.number, piece.attempt), result=piece.result)
            for piece in pieces
            if piece.result is not None and piece.attempt is not None
        ]
        told = await self.bench.child(
            work.told_by(hear),
            "stitch",
            {"pieces": [piece.model_dump(mode="json") for piece in there]},
            readable=(shelf.job_folder(job_id),),
        )
        return await self.bench.publish(work, told, f"{len(there)} pieces", joined=True)
