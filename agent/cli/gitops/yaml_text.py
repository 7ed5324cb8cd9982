"""A YAML text as nodes that know where they stand, and edits of it that leave every other character alone. Face, pure.

The parser is libyaml through PyYAML: Go's, which kubectl, Kustomize and Helm read YAML by, was made from it. It is used
for places only; what is written is the text itself. An edited text is read again, and what came out must be what was
meant, value by value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from agent.core.numbers.document_text import LONGEST_YAML, MOST_DEPTH, MOST_YAML_VALUES

if TYPE_CHECKING:
    from yaml import Event
    from yaml._yaml import Mark as CMark
    from yaml.error import Mark

MERGE: Final = "<<"
_QUOTES: Final = "'\""
_LITERAL: Final = "|"
_OTHER_BREAKS: Final = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
"""Where a line ends too, to the parser."""
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class YamlTextError(ValueError):
    """A text that is not read, or an edit that is not made; one line."""


class YamlShape(Enum):
    """What a node is."""

    SCALAR = auto()
    MAPPING = auto()
    SEQUENCE = auto()
    ALIAS = auto()


@dataclass(slots=True, kw_only=True, eq=False)
class YamlNode:
    """One value of a text; offsets count characters."""

    shape: YamlShape
    start: int
    line: int
    """From 0 on."""
    column: int
    end: int = 0
    """After its last character; of what is in blocks, after that of its last child."""
    end_line: int = 0
    value: str = ""
    """Of a scalar, unquoted; of an alias, whose."""
    style: str | None = None
    """Of a scalar: its quote, ``|`` or ``>``; None = plain."""
    anchor: str | None = None
    has_tag: bool = False
    is_flow: bool = False
    pairs: list[tuple[YamlNode, YamlNode]] = field(default_factory=list)
    items: list[YamlNode] = field(default_factory=list)

    def member(self, key: str) -> YamlNode | None:
        """Return the value of a key.

        Raises:
            YamlTextError: The key stands twice.
        """
        pair = self.pair(key)
        return None if pair is None else pair[1]

    def pair(self, key: str) -> tuple[YamlNode, YamlNode] | None:
        """Return a key and its value, or raise as ``member``."""
        pairs = [pair for pair in self.pairs if pair[0].shape is YamlShape.SCALAR and pair[0].value == key]
        if len(pairs) > 1:
            raise YamlTextError(f"line {pairs[1][0].line + 1}: {key} stands twice")
        return pairs[0] if pairs else None

    @property
    def is_null(self) -> bool:
        """Return whether it is nothing: empty, ``~`` or ``null``."""
        return self.shape is YamlShape.SCALAR and self.style is None and self.value in _NULLS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit:
    start: int
    end: int
    text: str


class YamlText:
    """One text, whole or inside a block scalar of another, and the edits that it is to get."""

    def __init__(
        self, text: str, *, outer: YamlText | None = None, scalar: YamlNode | None = None, indent: int = 0
    ) -> None:
        """Read a text.

        Raises:
            YamlTextError: It is no YAML, its lines are not told apart by LF, or it is larger or deeper than what is
                read.
        """
        if _OTHER_BREAKS.search(text):
            raise YamlTextError("its lines end in neither LF nor CRLF")
        self.text: Final = text
        self._outer: Final = outer
        self._scalar: Final = scalar
        self._indent: Final = indent
        self._starts: Final = [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]
        self.documents: Final = list(_documents(text))
        self._edits: list[_Edit] = []
        self._set: dict[int, str] = {}
        self._removed: set[int] = set()
        self._added: dict[int, list[tuple[str, object]]] = {}
        self._filled: dict[int, Mapping[str, str]] = {}
        self._inners: dict[int, YamlText] = {}
        self.aliased: Final = frozenset(
            node.value for document in self.documents for node in walk(document) if node.shape is YamlShape.ALIAS
        )
        """Anchors that values elsewhere follow."""

    @property
    def is_edited(self) -> bool:
        """Return whether anything is to change."""
        return bool(self._edits) or any(inner.is_edited for inner in self._inners.values())

    def line_of(self, node: YamlNode) -> int:
        """Return the line of the file that a node stands on, from 1 on."""
        if self._outer is None or self._scalar is None:
            return node.line + 1
        return self._outer.line_of(self._scalar) + 1 + node.line

    def inner(self, scalar: YamlNode) -> YamlText:
        """Return the YAML in a literal block scalar, as ``patch: |-`` of a Kustomization has it.

        Raises:
            YamlTextError: It is no such scalar, its indentation is written out, or what is in it is no YAML.
        """
        known = self._inners.get(id(scalar))
        if known is not None:
            return known
        head = self.text[scalar.start : self._line_end(scalar.line)].partition("#")[0].strip()
        if scalar.style != _LITERAL or head not in ("|", "|-", "|+") or self._outer is not None:
            raise YamlTextError(f"line {self.line_of(scalar)}: it is not in a literal block (|)")
        lines = scalar.value.split("\n")
        first = scalar.line + 1
        written = [self._line(first + index) for index in range(len(lines) - (lines[-1] == ""))]
        indent = next((len(line) - len(line.lstrip(" ")) for line in written if line.strip()), 0)
        for line, value in zip(written, lines, strict=False):
            if line[indent:] != value and (line.strip() or value):
                raise YamlTextError(f"line {self.line_of(scalar)}: its block is not understood")
        inner = YamlText(scalar.value, outer=self, scalar=scalar, indent=indent)
        self._inners[id(scalar)] = inner
        return inner

    # Edits

    def forget_edits(self) -> None:
        """Let the text be as it was read."""
        for edits in (self._edits, self._set, self._removed, self._added, self._filled):
            edits.clear()
        for inner in self._inners.values():
            inner.forget_edits()

    def put(self, node: YamlNode, text: str, *, quoted: bool = False) -> None:
        """Write another text in place of a plain or quoted scalar; its quotes stay.

        Args:
            quoted: Quote what is plain: JSON has no text without quotes.
        """
        if node.style not in (None, *_QUOTES) or node.anchor is not None or node.has_tag or node.line != node.end_line:
            raise YamlTextError(f"line {self.line_of(node)}: {node.value[:40]} is not written as a plain value")
        if node.is_null:
            raise YamlTextError(f"line {self.line_of(node)}: an empty value")
        quote = node.style or ('"' if quoted else "")
        self._edits.append(_Edit(start=node.start, end=node.end, text=f"{quote}{text}{quote}"))
        self._set[id(node)] = text

    def remove(self, mapping: YamlNode, key: str) -> None:
        """Take a key and its value out of a mapping; what is written beside other values is not."""
        pair = mapping.pair(key)
        if pair is None:
            raise YamlTextError(f"line {self.line_of(mapping)}: no {key}")
        self._removed.add(id(pair[1]))
        if mapping.is_flow:
            self._remove_from_flow(mapping, pair)
            return
        for line in self._own_lines(*pair):
            self._edits.append(_Edit(start=self._starts[line], end=self._after_line(line), text=""))

    def add(self, mapping: YamlNode, key: str, value: Mapping[str, str] | str, *, step: int = 2) -> None:
        """Write one more key at the end of a mapping.

        Args:
            step: Columns by which a mapping stands further right than its key.
        """
        self._added.setdefault(id(mapping), []).append((key, value))
        if mapping.is_flow:
            self._add_to_flow(mapping, key, value)
            return
        last_key, last = mapping.pairs[-1]
        if last.shape is YamlShape.ALIAS or (last.anchor is not None and last.shape is not YamlShape.SCALAR):
            raise YamlTextError(f"line {self.line_of(last_key)}: {last_key.value} is shared by an anchor")
        margin, quote = " " * last_key.column, last_key.style or ""
        if self.text[self._starts[last_key.line] : last_key.start].strip(" -?"):
            raise YamlTextError(f"line {self.line_of(last_key)}: {last_key.value} is not the first on its line")
        lines = [f"{margin}{quote}{key}{quote}:" + (f" {value}" if isinstance(value, str) else "")]
        if not isinstance(value, str):
            lines += [f"{margin}{' ' * step}{inner}: {text}" for inner, text in value.items()]
        end_line = last.end_line if last.style not in ("|", ">") else last.end_line - 1
        at, ending = self._after_line(end_line), self._ending(end_line)
        text = "".join(f"{line}{ending}" for line in lines)
        if at and self.text[at - 1] != "\n":
            text = ending + text[: -len(ending)]
        self._edits.append(_Edit(start=at, end=at, text=text))

    def fill(self, mapping: YamlNode, key: str, value: Mapping[str, str]) -> None:
        """Write a mapping behind a key that has nothing behind it."""
        pair = mapping.pair(key)
        if pair is None or mapping.is_flow or pair[1].value or pair[1].anchor is not None or pair[1].has_tag:
            raise YamlTextError(f"line {self.line_of(mapping)}: {key} is no empty key in a block")
        self._filled[id(pair[1])] = value
        line = pair[0].line
        at, ending = self._after_line(line), self._ending(line)
        margin = " " * (pair[0].column + 2)
        text = "".join(f"{margin}{inner}: {amount}{ending}" for inner, amount in value.items())
        if self.text[at - 1] != "\n":
            text = ending + text[: -len(ending)]
        self._edits.append(_Edit(start=at, end=at, text=text))

    def edited(self) -> str:
        """Return the text with all edits.

        Raises:
            YamlTextError: Two edits are of one place, or what came out is not what was meant.
        """
        edits = [*self._edits, *(edit for inner in self._inners.values() for edit in inner._outside())]
        edits.sort(key=lambda edit: (edit.start, edit.end))
        pieces, at = [], 0
        for edit in edits:
            if edit.start < at:
                raise YamlTextError("two changes of one place")
            pieces += [self.text[at : edit.start], edit.text]
            at = edit.end
        text = "".join((*pieces, self.text[at:]))
        meant = [self._meant(document) for document in self.documents]
        if [_raw(document) for document in _documents(text)] != meant:
            raise YamlTextError("the change would mean something else")
        return text

    def _outside(self) -> Iterator[_Edit]:
        """Return the edits of an inner text as those of the outer one."""
        outer, scalar = self._outer, self._scalar
        if outer is None or scalar is None:
            return
        margin = " " * self._indent
        for edit in self._edits:
            text = edit.text
            if text.endswith("\n"):  # whole lines
                text = "".join(f"{margin}{line}" for line in text.splitlines(keepends=True))
            elif text.startswith("\n"):
                text = text.replace("\n", f"\n{margin}")
            text = text.replace("\n", outer._ending(scalar.line))
            yield _Edit(start=self._out(edit.start), end=self._out(edit.end), text=text)

    def _out(self, offset: int) -> int:
        outer, scalar = self._outer, self._scalar
        if outer is None or scalar is None:
            return offset
        line = self.text.count("\n", 0, offset)
        column = offset - self._starts[line]
        first = (
            outer._starts[scalar.line + 1 + line] if scalar.line + 1 + line < len(outer._starts) else len(outer.text)
        )
        # The beginning of a line is that of the outer line: whole lines come and go with their margin.
        return first + (self._indent + column if column else 0)

    def _remove_from_flow(self, mapping: YamlNode, pair: tuple[YamlNode, YamlNode]) -> None:
        at = mapping.pairs.index(pair)
        if at:
            start, end = mapping.pairs[at - 1][1].end, pair[1].end
        elif len(mapping.pairs) > 1:
            start, end = pair[0].start, mapping.pairs[1][0].start
        else:
            start, end = pair[0].start, pair[1].end
        if "#" in self.text[start:end]:
            raise YamlTextError(f"line {self.line_of(pair[0])}: a comment stands between")
        self._edits.append(_Edit(start=start, end=end, text=""))

    def _add_to_flow(self, mapping: YamlNode, key: str, value: Mapping[str, str] | str) -> None:
        quote = (mapping.pairs[-1][0].style or "") if mapping.pairs else ""
        mark = '"' if quote == '"' else ""
        if isinstance(value, str):
            written = f"{mark}{value}{mark}"
        else:
            written = ", ".join(f"{quote}{inner}{quote}: {mark}{text}{mark}" for inner, text in value.items())
            written = f"{{{written}}}"
        at = mapping.pairs[-1][1].end if mapping.pairs else mapping.end - 1
        is_first = all(id(inner) in self._removed for _, inner in mapping.pairs)
        lead = "" if is_first else ", "
        self._edits.append(_Edit(start=at, end=at, text=f"{lead}{quote}{key}{quote}: {written}"))

    def _own_lines(self, key: YamlNode, value: YamlNode) -> Iterator[int]:
        """Return the lines that hold a key, its value and nothing else but comments behind them."""
        leaves = [key, *(node for node in walk(value) if node.shape is not YamlShape.MAPPING or node.is_flow)]
        if any(node.shape is YamlShape.SEQUENCE or node.line != node.end_line for node in leaves):
            raise YamlTextError(f"line {self.line_of(key)}: {key.value} is written over several lines")
        if self.text[self._starts[key.line] : key.start].strip(" "):
            raise YamlTextError(f"line {self.line_of(key)}: {key.value} is not alone on its line")
        yield from dict.fromkeys(node.line for node in leaves)

    def _line(self, number: int) -> str:
        if number >= len(self._starts):
            return ""
        return self.text[self._starts[number] : self._after_line(number)].rstrip("\r\n")

    def _ending(self, number: int) -> str:
        """Return how a line ends, or the one before it where it is the last and does not."""
        after = self._after_line(number)
        if number and self.text[after - 1] != "\n":
            after = self._starts[number]
        return "\r\n" if self.text[max(after - 2, 0) : after] == "\r\n" else "\n"

    def _line_end(self, number: int) -> int:
        return self._starts[number] + len(self._line(number))

    def _after_line(self, number: int) -> int:
        return self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)

    def _meant(self, node: YamlNode) -> object:
        """Return what a node is to be after all edits, without its places."""
        inner = self._inners.get(id(node))
        if inner is not None and inner.is_edited:
            return ("scalar", inner.edited(), None)
        if id(node) in self._filled:
            return _raw_value(self._filled[id(node)])
        if node.shape is YamlShape.SCALAR:
            return ("scalar", self._set.get(id(node), node.value), node.anchor)
        if node.shape is YamlShape.MAPPING:
            pairs = [
                (self._meant(key), self._meant(value)) for key, value in node.pairs if id(value) not in self._removed
            ]
            added = [(_raw_value(key), _raw_value(value)) for key, value in self._added.get(id(node), ())]
            return ("mapping", [*pairs, *added], node.anchor)
        if node.shape is YamlShape.SEQUENCE:
            return ("sequence", [self._meant(item) for item in node.items], node.anchor)
        return ("alias", node.value, None)


def walk(node: YamlNode) -> Iterator[YamlNode]:
    """Return a node and all that is in it, keys too."""
    yield node
    for key, value in node.pairs:
        yield from walk(key)
        yield from walk(value)
    for item in node.items:
        yield from walk(item)


def plain(node: YamlNode, most_values: int = MOST_YAML_VALUES) -> object:
    """Return a document as a program would have it: aliases and merges resolved.

    Raises:
        YamlTextError: An alias is of nothing, stands inside what it is of, or makes more of the text than is read.
    """
    anchors = {inner.anchor: inner for inner in walk(node) if inner.anchor is not None}
    left = most_values

    def plain_value(inner: YamlNode, depth: int) -> object:
        nonlocal left
        left -= 1
        if left < 0 or depth > 2 * MOST_DEPTH:
            raise YamlTextError(f"line {inner.line + 1}: aliases make too much of it")
        if inner.shape is YamlShape.ALIAS:
            if inner.value not in anchors:
                raise YamlTextError(f"line {inner.line + 1}: *{inner.value} is not defined")
            return plain_value(anchors[inner.value], depth + 1)
        if inner.shape is YamlShape.SEQUENCE:
            return [plain_value(item, depth + 1) for item in inner.items]
        if inner.shape is YamlShape.SCALAR:
            return _scalar(inner)
        defaults: dict[str, object] = {}
        for key, value in inner.pairs:
            if _merges(key):
                merged = plain_value(value, depth + 1)
                for base in merged if isinstance(merged, list) else [merged]:
                    defaults.update((name, content) for name, content in _mapping(base).items() if name not in defaults)
        own = {key.value: plain_value(value, depth + 1) for key, value in inner.pairs if not _merges(key)}
        return {**defaults, **own}

    return plain_value(node, 0)


def _merges(key: YamlNode) -> bool:
    """Return whether a key takes in what stands elsewhere: in quotes it is a name like any other."""
    return key.value == MERGE and key.style is None


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _scalar(node: YamlNode) -> object:
    if node.style is not None or node.has_tag:
        return node.value
    if node.value in _NULLS:
        return None
    if node.value in _BOOLEANS:
        return _BOOLEANS[node.value]
    body = node.value.removeprefix("-")
    if body.isascii() and body.isdigit() and len(body) < 19 and (body == "0" or body[0] != "0"):
        return int(node.value)
    return node.value


def _raw(node: YamlNode) -> object:
    """Return a node without its places, to compare."""
    if node.shape is YamlShape.SCALAR:
        return ("scalar", node.value, node.anchor)
    if node.shape is YamlShape.MAPPING:
        return ("mapping", [(_raw(key), _raw(value)) for key, value in node.pairs], node.anchor)
    if node.shape is YamlShape.SEQUENCE:
        return ("sequence", [_raw(item) for item in node.items], node.anchor)
    return ("alias", node.value, None)


def _raw_value(value: object) -> object:
    if isinstance(value, Mapping):
        return ("mapping", [(_raw_value(key), _raw_value(inner)) for key, inner in value.items()], None)
    return ("scalar", value, None)


def _documents(text: str) -> Iterator[YamlNode]:
    """Read all documents; an empty one is none."""
    import yaml

    if len(text) > LONGEST_YAML:
        raise YamlTextError(f"{len(text)} characters; allowed: {LONGEST_YAML}")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    open_nodes: list[YamlNode] = []
    waiting: list[YamlNode | None] = []
    values = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.CollectionEndEvent):
                node = open_nodes.pop()
                waiting.pop()
                _close(node, event)
                if not open_nodes:
                    yield node
                continue
            if not isinstance(event, yaml.NodeEvent):
                continue
            values += 1
            if values > MOST_YAML_VALUES or len(open_nodes) > MOST_DEPTH:
                raise YamlTextError(f"line {_mark(event.start_mark).line + 1}: larger or deeper than what is read")
            node = _node(event)
            _put_in(open_nodes, waiting, node)
            if isinstance(event, yaml.CollectionStartEvent):
                open_nodes.append(node)
                waiting.append(None)
            elif not open_nodes:
                yield node
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = "" if mark is None else f"line {mark.line + 1}: "
        reason = " ".join(str(problem or error).split())[:120]
        raise YamlTextError(f"{where}not YAML: {reason}") from error


def _mark(mark: Mark | CMark | None) -> Mark | CMark:
    if mark is None:
        raise YamlTextError("its values have no places")  # events that a parser made always have them
    return mark


def _node(event: Event) -> YamlNode:
    import yaml

    start, end = _mark(event.start_mark), _mark(event.end_mark)
    node = YamlNode(
        shape=YamlShape.SCALAR,
        start=start.index,
        line=start.line,
        column=start.column,
        end=end.index,
        end_line=end.line,
    )
    if isinstance(event, yaml.AliasEvent):
        node.shape, node.value = YamlShape.ALIAS, str(event.anchor)
        return node
    node.anchor = event.anchor if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) else None
    if isinstance(event, yaml.ScalarEvent):
        node.value, node.style = event.value, event.style or None
        node.has_tag = event.tag is not None
    elif isinstance(event, yaml.CollectionStartEvent):
        node.shape = YamlShape.MAPPING if isinstance(event, yaml.MappingStartEvent) else YamlShape.SEQUENCE
        node.is_flow, node.has_tag = bool(event.flow_style), event.tag is not None
    return node


def _put_in(open_nodes: list[YamlNode], waiting: list[YamlNode | None], node: YamlNode) -> None:
    """Add a node to the collection that is being read; ``waiting`` holds, for each, the key without a value."""
    if not open_nodes:
        return
    parent = open_nodes[-1]
    if parent.shape is YamlShape.SEQUENCE:
        parent.items.append(node)
        return
    key = waiting[-1]
    if key is None:
        waiting[-1] = node
    else:
        parent.pairs.append((key, node))
        waiting[-1] = None


def _close(node: YamlNode, event: Event) -> None:
    """Set where a collection ends: behind its bracket, or its last child."""
    if node.is_flow:
        mark = _mark(event.end_mark)
        node.end, node.end_line = mark.index, mark.line
        return
    last = node.pairs[-1][1] if node.pairs else node.items[-1] if node.items else None
    node.end, node.end_line = (node.start, node.line) if last is None else (last.end, last.end_line)
