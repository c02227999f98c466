"""Read descriptor sets, which ``protoc --include_imports --descriptor_set_out`` writes.

FileDescriptorSet: field 1, repeated: a FileDescriptorProto for each .proto file.

Names of the Java classes that protoc generates for messages: the package is ``java_package``, else the Protobuf
package. With ``java_multiple_files`` a message is a class of the package, otherwise a class nested in the outer class
of the file: ``java_outer_classname``, or else the file's name in camel case, followed by ``OuterClass`` where a
message, an enum or a service of the file has this name. Editions from 2024 on add ``Proto`` instead and nest nothing
unless a feature says so; both names stand for the message then. Messages in messages are nested classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from stateproc.codec.kryo.protobuf.message_types import MessageType, MessageTypes
from stateproc.errors import InvalidOption, package_for

_EDITION_2024 = 1001
_SUFFIXES = (".protodevel", ".proto")
HOW_TO_MAKE = (
    "make the file with protoc --include_imports --descriptor_set_out=FILE and the .proto files of the messages"
)


@dataclass(frozen=True)
class DescriptorSet:
    """A descriptor set: its bytes, which every split carries to the process that reads it, and where they are from."""

    data: bytes = field(repr=False)
    name: str = field(default="the descriptor set", compare=False)

    @property
    def messages(self) -> Mapping[str, MessageType]:
        """The messages by the names of their Java classes. Raises InvalidOption, MissingPackage."""
        return _messages(self.data)


@lru_cache(maxsize=8)
def _messages(data: bytes) -> Mapping[str, MessageType]:
    with package_for("option proto, Protobuf messages as columns,"):
        from google.protobuf import descriptor_pb2, descriptor_pool, message
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    except message.DecodeError as error:
        raise _invalid(f"it is no descriptor set ({error})") from error
    if not files:
        raise _invalid("it has no .proto files")
    pool = descriptor_pool.DescriptorPool()
    types = MessageTypes()
    found: dict[str, MessageType] = {}
    for file in _in_order(files):
        try:
            pool.AddSerializedFile(file.SerializeToString())
            for java_name, full_name in java_classes(file):
                made = types.of(pool.FindMessageTypeByName(full_name))
                if found.setdefault(java_name, made) is not made:
                    raise _invalid(f"{full_name} and {found[java_name].full_name} in it are the same class {java_name}")
        except InvalidOption:
            raise
        except (TypeError, KeyError, ValueError) as error:
            raise _invalid(f"{file.name} in it is not valid ({error})") from error
    return found


def _in_order(files: Iterable[Any]) -> list[Any]:
    """Return the files, each after those that it imports; the same file may be there twice. Raises InvalidOption."""
    by_name: dict[str, Any] = {}
    for file in files:
        if by_name.setdefault(file.name, file) != file:
            raise _invalid(f"it has two different files of the name {file.name}")
    ordered: dict[str, Any] = {}
    for name in by_name:
        pending, opened = [name], set[str]()
        while pending:
            last = pending[-1]
            if last in ordered:
                pending.pop()
                continue
            missing = next((item for item in by_name[last].dependency if item not in by_name), None)
            if missing is not None:
                raise _invalid(f"{last} imports {missing}, which is not in it")
            before = [item for item in by_name[last].dependency if item not in ordered]
            if not before:
                ordered[pending.pop()] = by_name[last]
            elif last in opened:
                raise _invalid(f"{last} imports itself")
            else:
                opened.add(last)
                pending += before
    return list(ordered.values())


def _invalid(reason: str) -> InvalidOption:
    return InvalidOption(f"the file of option proto cannot be used: {reason}", advice=HOW_TO_MAKE)


def java_classes(file: Any) -> Iterator[tuple[str, str]]:
    """Yield (Java class as Class.getName() returns it, full name) of every message of a FileDescriptorProto."""
    options = file.options
    package = options.java_package if options.HasField("java_package") else file.package
    prefix = f"{package}." if package else ""
    proto_prefix = f"{file.package}." if file.package else ""
    outer = f"{prefix}{outer_class(file)}$"
    multiple = options.java_multiple_files
    prefixes = (prefix, outer) if _is_2024(file) else (prefix,) if multiple else (outer,)
    pending = [(start, proto_prefix, message) for message in file.message_type for start in prefixes]
    while pending:
        java, full, message = pending.pop()
        if message.options.map_entry:
            continue
        name, full_name = java + message.name, full + message.name
        yield name, full_name
        pending += ((f"{name}$", f"{full_name}.", nested) for nested in message.nested_type)


def outer_class(file: Any) -> str:
    """Return the simple name of the outer class of a FileDescriptorProto."""
    if file.options.HasField("java_outer_classname"):
        return str(file.options.java_outer_classname)
    base = file.name.rpartition("/")[2]
    for suffix in _SUFFIXES:
        if base.endswith(suffix):
            base = base[: -len(suffix)]
            break
    name = _camel_case(base)
    if _is_2024(file):
        return f"{name}Proto"
    return f"{name}OuterClass" if name in _names(file) else name


def _is_2024(file: Any) -> bool:
    return bool(file.syntax == "editions" and file.edition >= _EDITION_2024)


def _camel_case(name: str) -> str:
    """Keep ASCII letters and digits; letters at the beginning and after all but letters are upper-case."""
    found, upper = "", True
    for char in name:
        if char.isascii() and char.isalpha():
            found += char.upper() if upper else char
            upper = False
        else:
            found += char if char.isascii() and char.isdigit() else ""
            upper = True
    return f"{found}_" if name.endswith("#") else found


def _names(file: Any) -> set[str]:
    """Collect the names that an outer class may not have: of services, and of messages and enums at any depth."""
    names = {item.name for item in (*file.service, *file.enum_type)}
    pending = list(file.message_type)
    while pending:
        message = pending.pop()
        names.add(message.name)
        names.update(item.name for item in message.enum_type)
        pending += message.nested_type
    return names
