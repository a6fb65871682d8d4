"""A column of text as a column of another type, all rows at once or not at all.

Not the rule of what fits: that is `scalars`, and whatever a cast of Arrow's would accept beyond it
(hexadecimal numbers, NaN) is refused here. A refusal is `pa.ArrowInvalid` or `ValueError`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.values.blocks import Unfit
from penstock.spark.values.scalars import base64


def cast_text(column: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """The column as the type; null stays null."""
    if pa.types.is_string(kind):
        return column
    if pa.types.is_boolean(kind):
        return _booleans(column)
    if pa.types.is_timestamp(kind):
        return _timestamps(column, kind)
    # Arrow takes 0x1F for a number.
    if pa.types.is_integer(kind) and pc.any(pc.match_substring_regex(column, "[xX]")).as_py():
        raise Unfit
    return _checked(pc.cast(column, kind))


def restore(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """What was read as `readable(kind)`, as the type itself."""
    if column.type == kind and not _has_unchecked(kind):
        return column
    if pa.types.is_list(kind):
        values = restore(column.values, kind.value_type)
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=mask)
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        # Flattened, so that what stands in a null struct is null and need not be text of anything.
        children = [
            restore(child, each.type) for child, each in zip(column.flatten(), fields, strict=True)
        ]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_binary(kind):
        texts = column.to_pylist()
        return pa.array([None if text is None else base64(text) for text in texts], kind)
    return _checked(column) if column.type == kind else cast_text(column, kind)


def readable(kind: pa.DataType) -> pa.DataType:
    """The type to read JSON as: dates and binaries are text there, which Arrow does not know."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(readable(kind.value_type)))
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([each.with_type(readable(each.type)) for each in fields])
    return pa.string() if pa.types.is_date(kind) or pa.types.is_binary(kind) else kind


def has_maps(kind: pa.DataType) -> bool:
    """Arrow's reader of JSON does not know maps."""
    return pa.types.is_map(kind) or any(has_maps(each) for each in _children(kind))


def _checked(column: pa.Array) -> pa.Array:
    """The column, if its numbers are what their type may hold: Arrow's own conversions take NaN,
    what is infinite, and decimals of more digits than there is room for."""
    kind = column.type
    if pa.types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py() is False:
        raise Unfit
    if pa.types.is_decimal(kind):
        column.validate(full=True)
    return column


def _has_unchecked(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return True
    return any(_has_unchecked(each) for each in _children(kind))


def _children(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(number).type for number in range(kind.num_fields)]


def _booleans(column: pa.StringArray) -> pa.BooleanArray:
    # Arrow's own cast takes 1 and 0 too.
    lower = pc.utf8_lower(column)
    true = pc.equal(lower, "true")
    if pc.all(pc.or_(true, pc.equal(lower, "false"))).as_py() is False:
        raise Unfit
    return true


def _timestamps(column: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """All with a zone, or all without: Arrow casts the one or the other."""
    try:
        return pc.cast(pc.cast(column, pa.timestamp("us", tz="UTC")), kind)
    except pa.ArrowInvalid:
        return pc.cast(pc.cast(column, pa.timestamp("us")), kind)
