"""A frozen vision transformer that is steered by learned prompts: the network of L2P."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

RANDOM = "random"
_PUBLISHED = "model.safetensors of timm's vit_base_patch16_224.orig_in21k, or Google's ViT-B_16.npz of ImageNet-21k"
Count = Annotated[int, Field(ge=1)]


class PromptedViTConfig(BaseModel):
    """All that is needed to build the network again; the defaults are ViT-B/16 with the prompts of L2P."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    weights: str
    """The file of the transformer's weights (`~` and environment variables are expanded), or `random`, which learns
    little: for tests, and to try things out."""
    classes: Count = 10
    """How many classes there are."""
    image_size: Count = 224
    """Images are resized to this side before they are cut into patches."""
    patch_size: Count = 16
    """The side of a patch."""
    dimension: Count = 768
    """Numbers in a token."""
    depth: Count = 12
    """Blocks of the transformer."""
    heads: Count = 12
    """Heads of attention in each block."""
    pool: Count = 10
    """M: how many prompts there are to choose from."""
    prompt_length: Count = 5
    """L_p: tokens of a prompt."""
    chosen: Count = 5
    """N: how many prompts each image is given."""

    @model_validator(mode="after")
    def _enough_prompts(self) -> PromptedViTConfig:
        if self.chosen > self.pool:
            raise ValueError(f"chosen is {self.chosen}, but the pool has only {self.pool} prompts.")
        return self


class PromptedViT(nn.Module):
    """Chooses prompts by the transformer's own view of an image, puts them before its patches, and classifies them.

    Prompts, keys and head are all that is trained, averaged and saved. The transformer is the same on every client and
    no part of the state: `backbone` is the number that its weights hash to, and a client with another one is refused.
    """

    Settings: ClassVar[type[BaseModel]] = PromptedViTConfig
    backbone: Tensor

    def __init__(self, **settings: Any) -> None:
        """The settings are `PromptedViTConfig`'s, in the plain values of a plan."""
        super().__init__()
        self.config = config = PromptedViTConfig.model_validate(settings)
        transformer = _build_transformer(config)
        self._outside_of_the_state = [transformer.requires_grad_(False).eval()]
        self.prompts = nn.Parameter(torch.empty(config.pool, config.prompt_length, config.dimension).uniform_(-1, 1))
        self.keys = nn.Parameter(torch.empty(config.pool, config.dimension).uniform_(-1, 1))
        self.head = nn.Linear(config.dimension, config.classes)
        self.register_buffer("backbone", torch.tensor(_number_of(transformer)))
        self._own_backbone = int(self.backbone)
        self.similarity: Tensor | None = None
        """Of the last images, the summed cosines of their views and the keys of their prompts: what L2P pulls up."""

    @property
    def transformer(self) -> Any:
        """The frozen transformer."""
        return self._outside_of_the_state[0]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PromptedViT:
        """Let the transformer follow to another device."""
        self.transformer._apply(fn, recurse)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def check_backbone(self) -> None:
        """Refuse a global model whose prompts were learned for another transformer than this one."""
        if int(self.backbone) != self._own_backbone:
            raise ValueError(
                f"the global model was learned with another transformer than {self.config.weights}: every node needs "
                f"the same file, {_PUBLISHED}"
            )

    def forward(self, images: Tensor) -> Tensor:
        """Class scores of images with values in [0, 1]; grey ones are shown in all three colours."""
        patches = self._patches(images)
        with torch.no_grad():
            view = self._encoded(patches)[:, 0]
        cosines = functional.normalize(view, dim=1) @ functional.normalize(self.keys, dim=1).T
        nearest = cosines.topk(self.config.chosen, dim=1)
        self.similarity = nearest.values.sum(dim=1)
        prompts = self.prompts[nearest.indices].flatten(1, 2)
        told = self._encoded(patches, prompts)[:, 1 : 1 + prompts.shape[1]]
        logits: Tensor = self.head(told.mean(dim=1))
        return logits

    def _patches(self, images: Tensor) -> Tensor:
        size = self.config.image_size
        colours = images.expand(-1, 3, -1, -1)
        if images.shape[-2:] != (size, size):
            colours = functional.interpolate(colours, (size, size), mode="bicubic", align_corners=False)
        patches: Tensor = self.transformer.patch_embed(colours)
        return patches

    def _encoded(self, patches: Tensor, prompts: Tensor | None = None) -> Tensor:
        """The tokens after the last block: class token, prompts, patches. Prompts stand where the class token does."""
        transformer = self.transformer
        place = transformer.pos_embed
        tokens = [(transformer.cls_token + place[:, :1]).expand(len(patches), -1, -1), patches + place[:, 1:]]
        if prompts is not None:
            tokens.insert(1, prompts + place[:, :1])
        encoded: Tensor = transformer.norm(transformer.blocks(transformer.norm_pre(torch.cat(tokens, dim=1))))
        return encoded


def _build_transformer(config: PromptedViTConfig) -> nn.Module:
    try:
        from timm.models.vision_transformer import VisionTransformer
    except ImportError as problem:
        raise ValueError("it needs timm: install fedagem with the extra `vit`") from problem
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a random transformer is the same in every process, whatever the seed of the run
        transformer: nn.Module = VisionTransformer(
            img_size=config.image_size,
            patch_size=config.patch_size,
            embed_dim=config.dimension,
            depth=config.depth,
            num_heads=config.heads,
            num_classes=0,
        )
    if config.weights != RANDOM:
        _load(transformer, Path(os.path.expandvars(config.weights)).expanduser())
    return transformer


def _load(transformer: Any, path: Path) -> None:
    """Fill the transformer from a file; refuses one that is missing or holds something else."""
    if not path.exists():
        raise ValueError(f"{path} does not exist: put {_PUBLISHED}, there")
    try:
        if path.suffix == ".npz":
            transformer.load_pretrained(str(path))
            return
        weights = {name: tensor for name, tensor in load_file(path).items() if not name.startswith("head.")}
    except Exception as problem:  # each library has its own errors for a file that it cannot read
        raise ValueError(f"{path} is not a file of weights that can be read ({problem})") from problem
    expected = {name: tensor.shape for name, tensor in transformer.state_dict().items()}
    if {name: tensor.shape for name, tensor in weights.items()} != expected:
        raise ValueError(f"{path} holds the weights of another transformer than the plan describes")
    transformer.load_state_dict(weights)


def _number_of(transformer: nn.Module) -> int:
    digest = hashlib.sha256()
    for name, tensor in transformer.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.numpy().tobytes())
    return int.from_bytes(digest.digest()[:4], "big") >> 1
