"""A function of a user's own for a Kryo serializer of a case, in a module that the option ``plugins`` names."""

from __future__ import annotations

import pyarrow as pa

from stateproc.serializers import KryoObjectInput, register_kryo


def read_money(data: KryoObjectInput) -> dict[str, object]:
    """Read varlong cents, String currency."""
    return {"cents": data.read_varlong(False), "currency": data.read_string()}


MONEY = pa.struct([("cents", pa.int64()), ("currency", pa.string())])
register_kryo("com.acme.lab.Case02$MoneySerializer", read_money, arrow_type=MONEY)
