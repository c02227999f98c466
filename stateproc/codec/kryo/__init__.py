"""Read Kryo object graphs, as Flink's KryoSerializer writes them, to plain Python.

``walker`` follows classes, references and fields; ``bodies`` lists the readers of known classes, which call the walker;
``reader`` puts both together. Imports ``wire`` and the date functions of ``temporal``.
"""
