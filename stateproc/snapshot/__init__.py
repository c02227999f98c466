"""The snapshot that users open: methods that call what works on it, tables about it, and the selection of a state.

It may import all packages except feeds, the data source, the command line and the writers, which import it.
"""
