"""Train the two digit classifiers of the zoo and store them, with test digits, in fxopt/models/assets.

    python scripts/train_models.py [folder]

The same seed gives the same files on one machine; another CPU may round differently in the last bits.
It takes about a minute and needs scikit-learn, whose `load_digits` has 1,797 images of 8 x 8 pixels.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

from fxopt.models.digits import DigitsConvNet, DigitsTransformer

VERSION = "1"
ASSETS = Path(__file__).parent.parent / "fxopt" / "models" / "assets"
STORED_DIGITS = 64
SEED = 0


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Train images and labels, then test ones; images are (count, 1, 8, 8), values from 0 to 1."""
    data = load_digits()
    parts = train_test_split(data.images, data.target, test_size=0.2, random_state=SEED, stratify=data.target)
    train, test, train_labels, test_labels = (torch.from_numpy(part) for part in parts)
    return as_images(train), train_labels, as_images(test), test_labels


def as_images(pixels: Tensor) -> Tensor:
    return pixels.float().unsqueeze(1) / 16


def shifted(images: Tensor) -> Tensor:
    """The images moved by up to a pixel each way, so that the models learn strokes and not places."""
    down, right = torch.randint(-1, 2, (2,)).tolist()
    return F.pad(images, (1, 1, 1, 1))[:, :, 1 - down : 9 - down, 1 - right : 9 - right]


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    batches = len(images) // 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * batches)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(64)[:batches]:
            loss = F.cross_entropy(model(shifted(images[rows])), labels[rows], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return (model(images).argmax(-1) == labels).float().mean().item()


def store(tensors: dict[str, Tensor], file: Path, about: dict[str, object]) -> None:
    # safetensors writes several metadata keys in an order of its own, which differs from run to run
    save_file(tensors, file, {"training": json.dumps({"data": "scikit-learn load_digits", **about})})
    file.chmod(0o644)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    images, labels, test_images, test_labels = digits()
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind, epochs in (
        ("digits_conv_net", DigitsConvNet, 40),
        ("digits_transformer", DigitsTransformer, 120),
    ):
        torch.manual_seed(SEED)
        model = kind()
        train(model, images, labels, epochs)
        found = accuracy(model, test_images, test_labels)
        print(f"{name}: {found:.1%} of {len(test_images)} test digits right")
        about = {"accuracy": round(found, 4), "test_digits": len(test_images), "script_version": VERSION}
        store(model.state_dict(), folder / f"{name}.safetensors", about)
    pixels = (test_images[:STORED_DIGITS] * 16).to(torch.uint8)
    tensors = {"pixels": pixels, "labels": test_labels[:STORED_DIGITS].contiguous()}
    store(tensors, folder / "digits.safetensors", {"part": "test", "script_version": VERSION})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS)
