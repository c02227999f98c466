"""Read Kryo object graphs, as Flink's KryoSerializer writes them, to plain Python.

``walker`` follows classes, references and fields; tables of readers of known classes call the walker;
``reader`` puts both together. Imports ``wire`` and the date functions of ``temporal``.
"""
