"""What is known of managed templates: read once, again when somebody touched them, rewritten once in each stretch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.core.buffers.buffer import Buffer, ManagedTemplate, OrderKind, Shape, ShapeSource, TemplateOrder
from agent.webhook.buffers.managed_templates import WORTH_A_LIST, ManagedTemplates
from agent.webhook.buffers.resolver import LIVE, Resolution
from agent.webhook.buffers.tables import SeenTemplate

NAME = "capacitybuffer-b-pod-template"
BUFFER = Buffer(namespace="shop", name="b", uid="u", generation=1, created_unix_seconds=0.0)
SHAPE = Shape(content={"spec": {"a": 1}}, source=ShapeSource.LIVE_POD, source_name="pod web-0")
LIVE_SHAPE = Resolution(shape=SHAPE, source=(LIVE, "web"))


def template(name: str = NAME, **more: Any) -> ManagedTemplate:
    facts: dict[str, Any] = {"generation": 1, "content": {"spec": {"a": 1}}, "owner_uid": "u"}
    return ManagedTemplate(name=name, **{**facts, **more})


class Server:
    """What the watch shows, and what is read, with how often."""

    def __init__(self) -> None:
        self.shown: dict[str, SeenTemplate] = {}
        self.stands: dict[str, ManagedTemplate] = {}
        self.reads = self.lists = 0
        self.known = ManagedTemplates(lambda _, name: self.shown.get(name), self._read, self._list)
        self.known.begin("shop", 1.0)

    def put(self, managed_template: ManagedTemplate, uid: str = "t") -> None:
        self.stands[managed_template.name] = managed_template
        self.shown[managed_template.name] = SeenTemplate(
            namespace="shop", name=managed_template.name, uid=uid, generation=managed_template.generation
        )

    def standing(self, *buffers: Buffer) -> dict[str, ManagedTemplate]:
        return self.known.standing("shop", buffers or (BUFFER,))

    def _read(self, _: Buffer, name: str) -> ManagedTemplate | None:
        self.reads += 1
        return self.stands.get(name)

    def _list(self, _: str) -> dict[str, ManagedTemplate]:
        self.lists += 1
        return dict(self.stands)


def order(kind: OrderKind = OrderKind.REPLACE, **content: Any) -> TemplateOrder:
    return TemplateOrder(kind=kind, buffer=BUFFER, template_name=NAME, content=content or {"spec": {"a": 2}})


def test_what_the_watch_does_not_show_is_not_asked_for() -> None:
    server = Server()
    assert server.standing() == {}
    assert server.reads == 0


def test_a_template_is_read_once_and_again_when_somebody_touched_it() -> None:
    server = Server()
    server.put(template())
    assert server.standing() == server.standing() == {NAME: template()}
    assert server.reads == 1
    server.put(template(generation=2))
    assert server.standing()[NAME].generation == 2
    assert server.reads == 2
    server.put(template(generation=2), uid="another")
    server.standing()
    assert server.reads == 3
    del server.shown[NAME]
    assert server.standing() == {}


def test_what_was_written_stands_before_the_watch_shows_it_but_not_for_ever() -> None:
    server = Server()
    server.known.wrote(order(OrderKind.CREATE), template(), LIVE_SHAPE)
    assert server.standing() == {NAME: template()}
    server.put(template())
    assert server.standing() == {NAME: template()}
    assert server.reads == 0
    del server.shown[NAME]  # shown once, and gone now
    assert server.standing() == {}
    server.known.wrote(order(OrderKind.CREATE), template(), LIVE_SHAPE)
    server.known.begin("shop", 2.0)
    assert server.standing() == {}


def test_after_a_restart_many_are_read_together() -> None:
    server = Server()
    buffers = [replace(BUFFER, name=f"b{index}") for index in range(WORTH_A_LIST)]
    for buffer in buffers:
        server.put(template(f"capacitybuffer-{buffer.name}-pod-template"))
    assert len(server.standing(*buffers)) == WORTH_A_LIST
    assert (server.lists, server.reads) == (1, 0)


def test_one_of_somebody_else_is_read_by_itself() -> None:
    server = Server()
    buffers = [replace(BUFFER, name=f"b{index}") for index in range(WORTH_A_LIST)]
    for buffer in buffers:
        server.put(
            template(f"capacitybuffer-{buffer.name}-pod-template", owner_uid=None if buffer.name == "b0" else "u")
        )
    server.standing(*buffers)
    assert (server.lists, server.reads) == (1, 1)


def test_a_template_is_rewritten_once_in_each_stretch_unless_somebody_ordered_it() -> None:
    server = Server()
    server.put(template())
    standing = server.standing()
    assert server.known.unwritable("shop", {"b": LIVE_SHAPE}, standing) == frozenset()
    server.known.wrote(order(OrderKind.CREATE), template(), LIVE_SHAPE)
    assert server.known.unwritable("shop", {"b": LIVE_SHAPE}, standing) == frozenset()  # to be made is no rewrite
    server.known.wrote(order(), template(generation=2), LIVE_SHAPE)
    assert server.known.is_pod_held(BUFFER)
    assert server.known.unwritable("shop", {"b": LIVE_SHAPE}, standing) == {"b"}
    ordered = replace(LIVE_SHAPE, source=("template", "t", 2))
    assert server.known.unwritable("shop", {"b": ordered}, standing) == frozenset()
    server.known.begin("shop", 2.0)
    assert not server.known.is_pod_held(BUFFER)
    assert server.known.unwritable("shop", {"b": LIVE_SHAPE}, standing) == frozenset()


def test_a_size_that_is_not_known_and_a_shape_that_is_not_whole_leave_what_stands() -> None:
    server = Server()
    server.put(template(content={"spec": {"a": 1, "b": 2}}))
    standing = server.standing()
    assert server.known.unwritable("shop", {"b": replace(LIVE_SHAPE, is_final=False)}, standing) == {"b"}
    assert server.known.unwritable("shop", {"b": replace(LIVE_SHAPE, is_whole=False)}, standing) == {"b"}
    other = replace(SHAPE, content={"spec": {"a": 9}})
    changed = replace(LIVE_SHAPE, is_whole=False, shape=other)
    assert server.known.unwritable("shop", {"b": changed}, standing) == frozenset()


def test_the_servers_own_defaults_are_no_reason_to_write_again() -> None:
    server = Server()
    written = template(generation=2, content={"spec": {"a": 2, "default": True}})
    server.known.wrote(order(), written, LIVE_SHAPE)
    assert server.known.is_as_written(order(), written)
    assert not server.known.is_as_written(order(), replace(written, generation=3))
    assert not server.known.is_as_written(order(spec={"a": 3}), written)
    server.known.keep_only("shop", frozenset())
    assert not server.known.is_as_written(order(), written)
