"""Checkpoint folders: the files of a model, whatever their kind.

search.py finds a folder, or has it fetched by download.py. folder.py reads the shape and opens the
tensors, each by the reader of its format in formats/; tokenizer.py reads the Encoder. What few
folders need is in modules of its own, which are imported then.
"""
