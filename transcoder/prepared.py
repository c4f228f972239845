"""Queries that are compiled once: for what is asked often, making a statement takes far longer than running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, Select

Raw = tuple[Any, ...]
"""A row as the driver has it."""


_FLOAT = 701
"""PostgreSQL's number of `double precision`, for which SQLAlchemy wants it: the only one of our tables' types."""


class Prepared:
    """A query with named `bindparam`s, in the words of one dialect."""

    def __init__(self, query: Select[Any], dialect: Dialect) -> None:
        compiled = query.compile(dialect=dialect)
        self.sql = compiled.string
        self._given: Mapping[str, Any] = compiled.params
        self._order: Sequence[str] | None = compiled.positiontup if compiled.positional else None
        self._columns: tuple[tuple[str, Callable[[Any], Any] | None], ...] = tuple(
            (column.name, column.type.dialect_impl(dialect).result_processor(dialect, _FLOAT))
            for column in query.selected_columns
        )

    def arguments(self, values: Mapping[str, Any]) -> Any:
        """As the driver takes them."""
        named = {**self._given, **values}
        return named if self._order is None else tuple(named[name] for name in self._order)

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> tuple[Raw, ...]:
        return tuple(map(tuple, connection.exec_driver_sql(self.sql, self.arguments(values))))

    def read(self, raw: Raw) -> dict[str, Any]:
        """The values of a row by the names of their columns."""
        return {
            name: value if process is None else process(value)
            for (name, process), value in zip(self._columns, raw, strict=True)
        }


Asked = tuple[Prepared, Mapping[str, Any]]
"""A query, and the values of its parameters."""
