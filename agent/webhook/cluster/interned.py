"""Small numbers for values that many share, given back when the last of them is gone. No I/O; one thread at a time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class Interned(Generic[V]):
    """Values by number and back; a number is free again when everybody who took it has given it back."""

    def __init__(self) -> None:
        self._numbers: dict[V, int] = {}
        self._values: list[V | None] = []
        self._users: list[int] = []
        self._free: list[int] = []

    def take(self, value: V) -> int:
        """Give the number of a value, one user more."""
        number = self._numbers.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._values[number], self._users[number] = value, 0
            else:
                number = len(self._values)
                self._values.append(value)
                self._users.append(0)
            self._numbers[value] = number
        self._users[number] += 1
        return number

    def give_back(self, number: int) -> None:
        """Say that one user is gone."""
        self._users[number] -= 1
        if not self._users[number]:
            del self._numbers[self.value(number)]
            self._values[number] = None
            self._free.append(number)

    def number(self, value: V) -> int | None:
        """Find the number of a value; None = nobody uses it."""
        return self._numbers.get(value)

    def value(self, number: int) -> V:
        """Give the value of a number that is in use."""
        value = self._values[number]
        if value is None:
            msg = f"number {number} is not in use"
            raise KeyError(msg)
        return value

    def __len__(self) -> int:
        return len(self._numbers)
