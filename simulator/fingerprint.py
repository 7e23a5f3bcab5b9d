"""Are two logs the same? A digest of what their tables say, however stored. No SimPy, no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def fingerprint(tables: Mapping[str, pa.Table]) -> str:
    """SHA-256 over names, types and values of every column, in the order of tables, columns and rows."""
    sha = hashlib.sha256()
    for name, table in tables.items():
        for column in table.column_names:
            sha.update(f"{name}.{column}:{table.schema.field(column).type}:{table.num_rows};".encode())
            for block in _canonical(table.column(column)):
                sha.update(block)
    return sha.hexdigest()


def _canonical(column: pa.ChunkedArray) -> list[bytes]:
    """The bytes of a column that mean something: which rows are null, and the values of the others."""
    missing = pc.is_null(column).to_numpy(zero_copy_only=False).astype(np.uint8).tobytes()
    present = column.drop_null()
    if pa.types.is_string(column.type):
        values = present.to_pylist()
        return [missing, json.dumps(values).encode()]
    numbers = present.to_numpy()
    if pa.types.is_floating(column.type):
        numbers = np.where(np.isnan(numbers), np.nan, numbers) + 0.0  # one NaN, one zero
    return [missing, np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<")).tobytes()]
