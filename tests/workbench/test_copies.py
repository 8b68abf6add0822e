import torch
from torch import nn

from fxopt import Workbench
from fxopt.view import GraphView
from fxopt.workbench.copies import families_of


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.first(x) + self.second(x)) / 2 + x / 3


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.conv1, self.conv2 = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.conv2(self.conv1(x))


def bench() -> Workbench:
    return Workbench(Tower().eval(), (torch.rand(2, 4),))


def test_the_same_place_in_every_block_is_one_family() -> None:
    wb = bench()
    families = families_of(GraphView.of(wb.pristine), wb.state_of("FuseBiasInLinear").sites)
    assert [(family.place, len(family.sites)) for family in families] == [
        ("blocks.*.first", 3),
        ("blocks.*.second", 3),
        ("conv1", 1),
        ("conv2", 1),
    ]


def test_two_places_in_one_block_are_two_families() -> None:
    wb = bench()
    families = families_of(GraphView.of(wb.pristine), wb.state_of("ChangeTrueDivToMulByInverse").sites)
    assert [len(family.sites) for family in families] == [3, 3]
    assert [family.sites[0].site for family in families] == ["truediv", "truediv_1"]


def test_blocks_with_names_of_their_own_are_copies_too_but_not_two_layers_of_one_block() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block1, self.block2 = Block(), Block()
            self.odd = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.odd(self.block2(self.block1(x)))

    wb = Workbench(Named().eval(), (torch.rand(2, 4),))
    families = families_of(GraphView.of(wb.pristine), wb.state_of("FuseBiasInLinear").sites)
    assert [(family.place, len(family.sites)) for family in families] == [
        ("block*.first", 2),
        ("block*.second", 2),
        ("odd_0", 1),
        ("odd_1", 1),
    ]


def test_a_family_is_switched_as_one_step() -> None:
    wb = bench()
    family = families_of(GraphView.of(wb.pristine), wb.state_of("FuseBiasInLinear").sites)[0]
    wb.turn_on("FuseBiasInLinear", family.names)
    again = families_of(GraphView.of(wb.pristine), wb.state_of("FuseBiasInLinear").sites)
    assert [one.sites_on for one in again] == [3, 0, 0, 0]
    wb.undo()
    assert wb.is_restored


def test_a_site_at_a_node_that_another_pass_made_stands_alone() -> None:
    wb = bench()
    wb.turn_on("MergeLinears")
    families = families_of(GraphView.of(wb.pristine), wb.state_of("FuseBiasInLinear").sites)
    assert all(len(family.sites) == 1 for family in families)
