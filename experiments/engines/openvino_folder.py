"""OpenVINO's format, written by Hugging Face's exporter: a folder with model and tokenizer."""

import warnings

import transformers
from optimum.exporters.openvino import main_export
from optimum.intel import OVConfig


def write_openvino(folder, path):
    """The model of a checkpoint folder in float32, and its tokenizer, in the folder `path`."""
    # what tracing a model has to say is not for those who asked for the folder
    transformers.utils.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    transformers.utils.logging.disable_progress_bar()
    how = {"task": "text-generation-with-past", "ov_config": OVConfig(dtype="fp32")}
    main_export(str(folder), path, convert_tokenizer=True, **how)
