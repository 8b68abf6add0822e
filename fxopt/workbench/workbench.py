"""One captured model, the passes that are on, and reversal: the state behind the page and scripts.

The choices are a value: the passes in the order in which they run, for each whether it is on, and the sites that are
left out. The current graph depends on that value alone. In any order of switching, it is the graph that comes of
running the passes that are on, in that order, over the pristine graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from torch import nn
from torch.fx import GraphModule

from fxopt.core import (
    Fingerprint,
    FxoptError,
    GraphIndex,
    Ledger,
    Pass,
    RewriteError,
)
from fxopt.core.ledger import act
from fxopt.core.weight_cache import WeightCache
from fxopt.display import Displayed
from fxopt.edits import Edit
from fxopt.errors import did_you_mean, expect, expect_model
from fxopt.passes import registered_passes
from fxopt.tracing import capture
from fxopt.workbench.choosing import Sites, before_and_after, including, names_of, without
from fxopt.workbench.current_graph import CurrentGraph, Plan
from fxopt.workbench.history import History
from fxopt.workbench.states import Choice, PassState
from fxopt.workbench.story import story
from fxopt.workbench.timeline import Act, act_between

P = ParamSpec("P")
T = TypeVar("T")


def _act(method: Callable[Concatenate[Workbench, P], T]) -> Callable[Concatenate[Workbench, P], T]:
    """Let a method act: if it raises, the workbench and its graph module are as they were."""

    @wraps(method)
    def whole_or_not_at_all(wb: Workbench, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return act(wb.current, lambda: method(wb, *args, **kwargs), keep=(wb, wb._history, wb._graph))

    return whole_or_not_at_all


class Workbench(Displayed):
    """A captured model and passes that can be switched on and off, in any order, forward and back.

    Args:
        model: an `nn.Module`, captured with the example inputs; or a `GraphModule` that was captured before. It is
            never changed.
        args, kwargs: example inputs, as for `fxopt.capture`.
        passes: the passes, in the order in which they run at first; `fxopt.registered_passes()` if not given.
        weights: where weights that passes compute are shared, as by `another`, with the workbenches of other captures
            of the same model.

    Raises:
        fxopt.CaptureError: the model cannot be captured.

    >>> import torch
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    >>> wb = Workbench(model, (torch.rand(2, 3, 8, 8),))
    >>> wb.turn_on("FuseBatchNorm2dInConv2d")
    >>> [node.name for node in wb.current.graph.nodes], wb.is_restored
    (['input_1', '_0', 'output'], False)
    >>> wb.reverse_all()
    >>> [node.name for node in wb.current.graph.nodes], wb.is_restored
    (['input_1', '_0', '_1', 'output'], True)
    """

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        passes: Iterable[Pass[Any]] | None = None,
        weights: WeightCache | None = None,
    ) -> None:
        expect_model(model, "fxopt.Workbench")
        expect(passes, Iterable | None, "fxopt.Workbench(passes=...)", "passes in a list")
        is_captured = isinstance(model, GraphModule) and not args and not kwargs
        self.pristine: GraphModule = model if is_captured else capture(model, args, kwargs)  # type: ignore[assignment]
        if Ledger.entries_of(self.pristine):
            raise RewriteError("this graph module has passes in force; reverse them before putting it on a workbench")
        given = tuple(passes) if passes is not None else tuple(kind() for kind in registered_passes())
        for one in given:
            remedy = f"write {one.__name__}()" if isinstance(one, type) else "fxopt.as_pass makes one of a function"
            expect(one, Pass, "fxopt.Workbench(passes=...)", "passes", remedy)
        self._by_signature: dict[str, Pass[Any]] = {pass_.signature: pass_ for pass_ in given}
        if len(self._by_signature) < len(given):
            raise FxoptError("a pass with the same arguments is on the workbench twice; leave one out")
        self._given = given
        self._fingerprints = Fingerprint()
        self.fingerprint = self._fingerprints.of(self.pristine)
        """Of the pristine graph module, taken before anything was done to it."""
        self._history = History(tuple(map(Choice, self._by_signature)))
        self._graph = CurrentGraph(self.pristine, weights)
        self._graph.build(self._plan(self.choices))
        self._first = tuple(self._graph.states)

    def __repr__(self) -> str:
        acting = [state.in_words for state in self.states if state.sites or state.on]
        return "\n  ".join([f"Workbench({self.pristine._get_name()}, {len(self.pristine.graph.nodes)} nodes)", *acting])

    def another(self) -> Workbench:
        """Return another workbench for the same graph module and passes, at the start: every pass off, no history.

        Passes that were added come with the choices that have them (`choose`).

        Both share the fingerprint and the first scan, which are plain data, and each weight that a pass computes: the
        first workbench that needs it computes it, and it is the same tensor in the current graphs of all. So all of
        these are read-only, like the weights of the pristine graph, which they all share. The weights that were used
        last are held, as many bytes as the pristine graph has; beyond that, those that are in use.

        A switch on one workbench leaves the other alone, and each may be used in a thread of its own.
        """
        new = type(self).__new__(type(self))
        new.pristine, new.fingerprint, new._first = self.pristine, self.fingerprint, self._first
        new._given = self._given
        new._by_signature = {pass_.signature: pass_ for pass_ in (*self._given, *self.added)}
        new._fingerprints = Fingerprint(self._fingerprints)
        new._history = History(tuple(Choice(pass_.signature) for pass_ in self._given))
        new._graph = self._graph.another(self._first, new.choices)
        return new

    def release(self) -> None:
        """Release the current graph module, and all memory that it takes; all else stays as it is.

        It is built anew from the choices when it is next asked for, as another object.
        """
        self._graph.release()

    # ---- questions

    @property
    def current(self) -> GraphModule:
        """The graph module with the passes that are on. It is changed in place by each switch, and is made when it is
        first asked for where the workbench comes from `another` or has been told to `release`."""
        made = self._graph.made
        return self._graph.make(self._plan(self.choices)) if made is None else made

    @property
    def _readable(self) -> GraphModule:
        """The current graph module, or its like, to be read only: the pristine one before anything was switched."""
        is_untouched = self._graph.made is None and not any(choice.on for choice in self.choices)
        return self.pristine if is_untouched else self.current

    def _plan(self, choices: Iterable[Choice]) -> Plan:
        return [(self._by_signature[choice.signature], choice) for choice in choices]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """One choice for each pass, in the order in which they run."""
        return self._history.now

    @property
    def passes(self) -> tuple[Pass[Any], ...]:
        """As they were given, and then the edits made by hand: an order that `move` leaves as it is."""
        here = {choice.signature for choice in self.choices}
        return tuple(pass_ for signature, pass_ in self._by_signature.items() if signature in here)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits made by hand, the oldest first, whether they are on or off."""
        return tuple(pass_ for pass_ in self.passes if isinstance(pass_, Edit))

    @property
    def added(self) -> tuple[Pass[Any], ...]:
        """The passes that were added, the oldest first, whether they are on or off."""
        return tuple(one for one in self.passes if one not in self._given and not isinstance(one, Edit))

    @property
    def known(self) -> tuple[Pass[Any], ...]:
        """The `passes`, and at their places the edits that an undo or redo would bring back: for lasting colors."""
        return tuple(self._by_signature.values())

    @property
    def order(self) -> tuple[Pass[Any], ...]:
        """The passes in the order in which they run."""
        return tuple(pass_ for pass_, _ in self._plan(self.choices))

    @property
    def states(self) -> tuple[PassState, ...]:
        """The passes with their sites and near misses, in the order in which they run."""
        return tuple(self._graph.states)

    def state_of(self, pass_: Pass[Any] | str) -> PassState:
        return self._graph.states[self._position(pass_)]

    @property
    def is_changed(self) -> bool:
        """Whether any site is on."""
        return bool(Ledger.entries_of(self._readable))

    @property
    def is_restored(self) -> bool:
        """Whether the current graph module is the pristine one, to the last bit (`fxopt.fingerprint`)."""
        gm = self._readable
        return act(gm, lambda: self._is_pristine(gm), saves=False)

    def _is_pristine(self, gm: GraphModule) -> bool:
        if Ledger.entries_of(gm):
            return False
        is_as_read = gm is self.pristine and self._fingerprints.has_read(gm)
        return is_as_read or self._fingerprints.of(gm) == self.fingerprint

    def portable_fingerprints(self) -> tuple[str, str]:
        """Return the fingerprints of the pristine graph module and of the current one, for other machines.

        They leave out the files and Python modules that the model's source stands in; see `Fingerprint.of`.
        """
        gm = self._readable
        before = self._fingerprints.of(self.pristine, portable=True)
        return before, act(gm, lambda: self._fingerprints.of(gm, portable=True), saves=False)

    @property
    def undone(self) -> tuple[Choice, ...] | None:
        """The choices that `undo` would go back to; None at the first step."""
        return self._history.before

    @property
    def redone(self) -> tuple[Choice, ...] | None:
        """The choices that `redo` would go on to; None at the last step."""
        return self._history.after

    @property
    def reversed(self) -> tuple[Choice, ...]:
        """The choices that `reverse_all` leads to."""
        return tuple(Choice(choice.signature) for choice in self.choices)

    @property
    def can_undo(self) -> bool:
        return self.undone is not None

    @property
    def can_redo(self) -> bool:
        return self.redone is not None

    @property
    def acts(self) -> tuple[Act, ...]:
        """The time line: every act in a sentence, the oldest first. Those after the first `acts_done` are undone."""
        return self._history.acts

    @property
    def acts_done(self) -> int:
        """The number of acts that are done: `undo` takes the last of them back."""
        return self._history.at

    def story(self, name: str, named: Callable[[str], str] = str) -> list[str]:
        """Return the history of a node in sentences: the pass or edit that made, changed or removed it, and its origin.

        An edit by hand is told in its own words: ``removed by hand: delete drop``. `named` returns the words for a pass
        by its name.
        """
        by_hand = {edit.name: f"by hand: {edit.title}" for edit in self.known if isinstance(edit, Edit)}
        return story(self._readable, name, by_hand, named)

    def resting_on(self, pass_: Pass[Any] | str, site: Sites = None) -> tuple[tuple[str, str], ...]:
        """Return the sites that would go off with a pass, or with some of its sites: pairs of pass name and site.

        They are found on a copy that shares all weights; the workbench stays as it is.

        Raises:
            FxoptError: the pass is unknown to the workbench, or the site to the pass.
        """
        i, gone = self._position(pass_), names_of(site)
        if not self.may_rest_on(pass_, site):
            return ()
        name, before = self.order[i].name, self._in_force(self.current)
        after = set(self._in_force(self.trial(without(self.choices, self._graph.states, i, site))))
        return tuple(
            pair for pair in before if pair not in after and not (pair[0] == name and (site is None or pair[1] in gone))
        )

    def may_rest_on(self, pass_: Pass[Any] | str, site: Sites = None) -> bool:
        """Return whether a later pass, or another site of this one, is on: only those can rest on it. Quick.

        Raises:
            FxoptError: the pass is unknown to the workbench.
        """
        i = self._position(pass_)
        others = {found.site for found in self._graph.states[i].sites if found.on} - names_of(site)
        return any(choice.on for choice in self.choices[i + 1 :]) or (site is not None and bool(others))

    def trial(self, choices: tuple[Choice, ...]) -> GraphModule:
        """Return the graph at other choices, as a copy that shares all weights; the workbench stays as it is.

        It is left unlinted and uncompiled: `recompile` it before it is called. A pass that fails is rolled back: it has
        no site on.
        """
        return self._graph.trial(self._readable, self._plan(choices))

    def with_(self, pass_: Pass[Any] | str, site: Sites = None, *, on: bool) -> tuple[Choice, ...]:
        """Return the choices that switching a pass, or some of its sites, on or off would lead to; for `trial`."""
        i = self._position(pass_)
        return (including if on else without)(self.choices, self._graph.states, i, site)

    # ---- acts

    @_act
    def turn_on(self, pass_: Pass[Any] | str, site: Sites = None) -> None:
        """Switch a pass on, or some sites of it.

        Args:
            pass_: a pass of the workbench, or its name.
            site: the name of one site, or the names of several; the rest of the pass stays as it is.

        Raises:
            FxoptError: the workbench has no such pass, or the pass no such site.
        """
        self._go(including(self.choices, self._graph.states, self._position(pass_), site))

    @_act
    def turn_off(self, pass_: Pass[Any] | str, site: Sites = None) -> None:
        """Switch a pass off, or some sites of it; all that rests on it (see `resting_on`) goes off and returns with it.

        Raises:
            FxoptError: the pass is unknown to the workbench, or the site to the pass.
        """
        self._go(without(self.choices, self._graph.states, self._position(pass_), site))

    @_act
    def move(self, pass_: Pass[Any] | str, to: int) -> None:
        """Let a pass run as number `to`, counted from 0; the others keep their order among themselves.

        Raises:
            FxoptError: the workbench has no such pass, or no such place.
        """
        i = self._position(pass_)
        if not 0 <= to < len(self.passes):
            raise FxoptError(f"{self.order[i].name} cannot run as number {to}: give 0 to {len(self.passes) - 1}")
        others = [*self.choices[:i], *self.choices[i + 1 :]]
        self._go((*others[:to], self.choices[i], *others[to:]))

    @_act
    def choose(self, choices: tuple[Choice, ...], edits: Iterable[Pass[Any]] = ()) -> None:
        """Bring the workbench to `choices`, which may come from another one with equal passes.

        Args:
            edits: those of the other workbench, where it has some, and the passes that were added there.

        Raises:
            FxoptError: the choices are of other passes than the workbench has.
        """
        known = self._by_signature | {edit.signature: edit for edit in edits}
        given = {pass_.signature for pass_ in self._given}
        signatures = {choice.signature for choice in choices}
        if len(signatures) != len(choices) or not given <= signatures <= known.keys():
            raise FxoptError("these choices are of other passes than the workbench has; give one for each of its own")
        self._by_signature = known
        self._go(choices)

    @_act
    def add(self, pass_: Pass[Any], to: int | None = None) -> None:
        """Take one more pass, switched off, as number `to` in the order or as the last; `undo` takes it away again.

        It takes the place of one that was added before under the same name. The same one again changes nothing.

        Raises:
            FxoptError: the workbench was given a pass of this name.
        """
        expect(pass_, Pass, "Workbench.add", "a pass", "fxopt.as_pass makes one of a function")
        if any(pass_.name == mine.name for mine in self._given):
            raise FxoptError(f"the workbench has a pass {pass_.name} already; give the new one another name")
        if any(pass_.signature == choice.signature for choice in self.choices):
            return
        others = tuple(one for one in self.choices if self._by_signature[one.signature].name != pass_.name)
        self._by_signature[pass_.signature] = pass_
        at = len(others) if to is None else to
        self._go((*others[:at], Choice(pass_.signature), *others[at:]))

    @_act
    def edit(self, edit: Edit) -> Edit:
        """Make an edit by hand, in the graph as it is now. `undo` takes it back.

        It runs after all passes and edits that are on. The passes that are off come behind it: they are asked about the
        graph that it leaves, so an edit can make a pass match, and a pass that is switched on afterwards runs after it.

        Returns:
            the edit as it is on the workbench. One that is equal to another there counts as a second one.

        Raises:
            EditError: it does not hold; the message says why, and nothing is changed.
        """
        expect(edit, Edit, "Workbench.edit", "an edit by hand, of fxopt.edits")
        while edit.signature in self._by_signature:
            edit = edit.another_turn()
        edit.check(GraphIndex(self.current))
        self._by_signature[edit.signature] = edit
        done, later = before_and_after(self.choices, {one.signature for one in self.edits})
        self._go((*done, Choice(edit.signature, on=True), *later))
        if error := self._graph.states[len(done)].error:
            raise FxoptError(error)
        return edit

    @_act
    def remove(self, edit: Edit | str) -> None:
        """Take an edit off the workbench; the sites that rest on it (see `resting_on`) go off, as with `turn_off`.

        Raises:
            FxoptError: the edit is unknown to the workbench.
        """
        i = self._position(edit)
        if not isinstance(self.order[i], Edit):
            raise FxoptError(f"{self.order[i].name} is a pass; turn it off instead")
        self._go((*self.choices[:i], *self.choices[i + 1 :]))

    @_act
    def reverse_all(self) -> None:
        """Switch every pass off; they keep their order."""
        self._go(self.reversed)

    @_act
    def undo(self) -> None:
        """Take the last switch back, if there is one."""
        if self.can_undo:
            self._history.undo()
            self._build()

    @_act
    def redo(self) -> None:
        """Do the last switch that was taken back again, if there is one."""
        if self.can_redo:
            self._history.redo()
            self._build()

    @_act
    def go_to(self, done: int) -> None:
        """Go to the state after the first `done` of the `acts`; the later ones stay, for `redo` and for `go_to`.

        Raises:
            FxoptError: there are fewer acts.
        """
        if not 0 <= done <= len(self.acts):
            raise FxoptError(f"there is no state after {done} acts: give 0 to {len(self.acts)}")
        self._history.go_to(done)
        self._build()

    # ----

    def _position(self, pass_: Pass[Any] | str) -> int:
        expect(pass_, Pass | str, "a workbench", "a pass or its name", "write its name, or call it")
        for i, mine in enumerate(self.order):
            if pass_ == mine.name if isinstance(pass_, str) else pass_.signature == mine.signature:
                return i
        known = [mine.name for mine in self.passes]
        name = pass_ if isinstance(pass_, str) else pass_.name
        raise FxoptError(f"the workbench has no pass {name}; it has {', '.join(known)}.{did_you_mean(name, known)}")

    @staticmethod
    def _in_force(gm: GraphModule) -> tuple[tuple[str, str], ...]:
        return tuple((entry.name, entry.site) for entry in Ledger.entries_of(gm))

    def _go(self, choices: tuple[Choice, ...]) -> None:
        before, states = self.choices, tuple(self._graph.states)
        if self._history.go(choices):
            self._settle()
            self._history.note(act_between(before, states, choices, self._graph.states))

    def _settle(self) -> None:
        """Forget the edits that are in no step any longer, and build."""
        left = self._history.signatures
        self._by_signature = {key: pass_ for key, pass_ in self._by_signature.items() if key in left}
        self._build()

    def _build(self) -> None:
        self._graph.build(self._plan(self.choices))

    @cached_property
    def example_names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(str(node.target) for node in self.pristine.graph.nodes if node.op == "placeholder")
