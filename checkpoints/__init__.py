"""Checkpoint folders: the files of a model, whatever their kind.

A folder holds, under Hugging Face's names or OpenAI's,

    config.json    or hparams.json               the shape
    vocab.json     or encoder.json               the vocabulary
    merges.txt     or vocab.bpe                  the merges
    model.safetensors                            the weights (formats/safetensors.py)
    or model.safetensors.index.json              the weights in several such files
    or model.ckpt.index, model.ckpt.data-...     the weights as OpenAI stores them
                                                 (formats/tf_checkpoint.py)

search.py finds folders, download.py fetches them (transfer.py each file), check.py examines them.
"""
