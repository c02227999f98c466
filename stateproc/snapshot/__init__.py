"""The snapshot that users open: its operators by uid, tables about it, and the selection of a state.

It may import all packages except the data source, the command line and the writers, which import it.
"""
