"""The Serializer interface, the registry of snapshot classes, and what serializers of every family share.

May import: errors, wire, flink_versions, codec. Nothing in here imports a family of serializers.
"""
