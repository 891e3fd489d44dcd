import pytest
import torch

from fedagem.detection.anchors import cluster_anchors


def three_kinds(seed=0):
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.tensor([[16.0, 16.0], [96.0, 48.0], [64.0, 160.0]])
    noise = 1 + 0.1 * (2 * torch.rand((300, 2), generator=generator) - 1)
    return kinds.repeat(100, 1) * noise


def test_clear_kinds_of_boxes_become_the_anchors():
    anchors = cluster_anchors(three_kinds(), 3)
    assert torch.allclose(torch.tensor(anchors.sizes), torch.tensor([[0.5, 0.5], [3.0, 1.5], [2.0, 5.0]]), rtol=0.05)
    assert anchors.mean_iou > 0.88
    assert anchors.boxes == 300


def test_same_seed_same_anchors_and_more_anchors_fit_better():
    sizes = 4 + 200 * torch.rand((500, 2), generator=torch.Generator().manual_seed(4))
    assert cluster_anchors(sizes, 5, seed=3) == cluster_anchors(sizes, 5, seed=3)
    fits = [cluster_anchors(sizes, count).mean_iou for count in (1, 3, 9)]
    assert fits == sorted(fits)


def test_too_few_boxes_are_refused():
    with pytest.raises(ValueError, match="5 anchors need at least 5 boxes of different size, got 3"):
        cluster_anchors(torch.tensor([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [3.0, 2.0]]), 5)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        cluster_anchors(torch.tensor([[1.0, 2.0]]), 0)
