"""Damage files and run readers on them: mutations, crafted files, kernels over checked memory, child processes."""
