"""Long answers are made one at a time, and none holds the others up for long."""

from __future__ import annotations

import asyncio

from agent.webhook.http.fair_queue import AnswerLine


def test_answers_are_made_one_after_the_other_in_the_order_of_asking() -> None:
    course: list[str] = []

    async def answer(line: AnswerLine, name: str) -> None:
        async with line.turn():
            course.append(f"{name} begins")
            for _ in range(3):
                await asyncio.sleep(0)
            course.append(f"{name} ends")

    async def all_of_them() -> None:
        line = AnswerLine(patience_seconds=3600.0)
        await asyncio.gather(*(answer(line, name) for name in "abc"))

    asyncio.run(all_of_them())
    assert course == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


def test_an_answer_that_waits_itself_holds_the_next_up_for_no_longer_than_patience() -> None:
    async def both() -> list[str]:
        line, may_end, course = AnswerLine(patience_seconds=0.01), asyncio.Event(), list[str]()

        async def slow() -> None:
            async with line.turn():
                course.append("slow begins")
                await may_end.wait()
                course.append("slow ends")

        waiting = asyncio.create_task(slow())
        await asyncio.sleep(0)
        async with line.turn():  # hangs here where nobody may begin
            course.append("next")
        may_end.set()
        await waiting
        async with line.turn():
            course.append("last")
        return course

    assert asyncio.run(both()) == ["slow begins", "next", "slow ends", "last"]


def test_one_who_goes_while_he_waits_leaves_the_line_to_the_others() -> None:
    async def left() -> bool:
        line, may_end = AnswerLine(patience_seconds=3600.0), asyncio.Event()

        async def hold() -> None:
            async with line.turn():
                await may_end.wait()

        async def ask() -> bool:
            async with line.turn():
                return True

        holding = asyncio.create_task(hold())
        await asyncio.sleep(0)
        gone, next_one = asyncio.create_task(ask()), asyncio.create_task(ask())
        await asyncio.sleep(0)
        gone.cancel()
        may_end.set()
        await holding
        return await next_one

    assert asyncio.run(left())
