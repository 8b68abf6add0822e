"""The places of a model's parameters."""

from __future__ import annotations

from torch import nn

from fxopt.evidence.places import parameter_places


def test_shared_parameters_count_once_and_shares_add_up() -> None:
    model = nn.ModuleDict({"first": nn.Linear(9, 9), "second": nn.Linear(9, 9), "none": nn.ReLU()})
    model["second"].weight = model["first"].weight
    places = parameter_places(model)
    assert [(place.path, place.parameters) for place in places] == [("first", 90), ("second", 9)]
    assert sum(place.share for place in places) == 1


def test_a_part_that_holds_nearly_all_is_told_by_its_own_parts() -> None:
    inner = nn.ModuleDict({"a": nn.Linear(30, 30), "b": nn.Linear(30, 20)})
    places = parameter_places(nn.ModuleDict({"encoder": inner, "bias": nn.Linear(1, 1)}))
    assert [place.path for place in places] == ["encoder.a", "encoder.b"]
    assert [place.kind for place in parameter_places(nn.Sequential(nn.Linear(2, 2)))] == ["Linear"]


def test_a_model_without_parameters_has_no_places() -> None:
    assert parameter_places(nn.Sequential(nn.ReLU())) == ()
    assert len(parameter_places(nn.Sequential(*(nn.Linear(2, 2) for _ in range(9))), most=4)) == 4
