"""Sources of models: the zoo, and folders with safetensors. Importing it does not import transformers."""

from fxopt.models.architectures import ARCHITECTURES, Architecture
from fxopt.models.local_folder import LocalFolder
from fxopt.models.source import Inputs, ModelSource, SizeRange, Sizes
from fxopt.models.trained import TRAINED, TrainedModel, stored_digits
from fxopt.models.zoo import ZOO, model_source

__all__ = [
    "ARCHITECTURES",
    "TRAINED",
    "ZOO",
    "Architecture",
    "Inputs",
    "LocalFolder",
    "ModelSource",
    "SizeRange",
    "Sizes",
    "TrainedModel",
    "model_source",
    "stored_digits",
]
