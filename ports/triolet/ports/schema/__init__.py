"""Schemas: between Python types and strict JSON, through JSON Schema.

An attrs class is a schema: ``codec_for(MyClass)`` renders it as JSON Schema 2020-12, decodes JSON into it and
encodes it back, validating both ways. A schema that arrives as JSON gets the same interface from `raw_codec`. What
a type may say about itself beyond its annotations is in `annotations`. (CAP-004, CAP-014, RUN-028)
"""

from triolet.ports.schema.annotations import (
    Alias,
    Description,
    Ge,
    Gt,
    Le,
    Lt,
    MaxItems,
    MaxLength,
    MinItems,
    MinLength,
    MultipleOf,
    Pattern,
)
from triolet.ports.schema.codec import Codec, codec_for
from triolet.ports.schema.raw import raw_codec

__all__ = [
    "Alias",
    "Codec",
    "Description",
    "Ge",
    "Gt",
    "Le",
    "Lt",
    "MaxItems",
    "MaxLength",
    "MinItems",
    "MinLength",
    "MultipleOf",
    "Pattern",
    "codec_for",
    "raw_codec",
]
