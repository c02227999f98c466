"""Protobuf messages by the descriptors of their .proto files."""
