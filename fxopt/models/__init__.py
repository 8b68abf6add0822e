"""Sources of models: the zoo, and folders with safetensors. Importing it does not import transformers."""

from fxopt.models.architectures import ARCHITECTURES, Architecture
from fxopt.models.local_folder import CachedModel, LocalFolder
from fxopt.models.source import Inputs, ModelSource, SizeRange, Sizes, as_inputs
from fxopt.models.trained import TRAINED, TrainedModel, stored_digits
from fxopt.models.zoo import ZOO, model_source

__all__ = [
    "ARCHITECTURES",
    "TRAINED",
    "ZOO",
    "Architecture",
    "CachedModel",
    "Inputs",
    "LocalFolder",
    "ModelSource",
    "SizeRange",
    "Sizes",
    "TrainedModel",
    "as_inputs",
    "model_source",
    "stored_digits",
]
