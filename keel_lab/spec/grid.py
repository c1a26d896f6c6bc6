"""The parts of a sweep file that name architectures: the axes under `grid`, and `per_architecture`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keel_lab.architecture import Catalogue, Declaration
from keel_lab.errors import KeelLabError, Problem
from keel_lab.spec import axis, fields, kind, lr_choice
from keel_lab.spec.axis import Values
from keel_lab.spec.kind import Kind, nearest
from keel_lab.spec.lr_choice import LrChoice
from keel_lab.spec.node import Node

DEPTH_REMEDY = "depth is never a bare number: write depth: {blocks: [16]} or {sublayers: [32]} (2 sub-layers a block)"


@dataclass
class GridReader:
    """Reads `grid` and `per_architecture`; what is wrong is added to `problems`.

    Attributes:
        axes: values by key (`architecture`, `blocks`, `seed`, `model.width`, `options.alpha`), in the file's order.
        own: `per_architecture`: values by architecture and option.
        lr_choice: what stands under `lr` in place of values, see `lr_choice`.
    """

    catalogue: Catalogue
    protocol: str
    problems: list[Problem]
    axes: dict[str, Values] = field(default_factory=dict)
    own: dict[str, dict[str, Values]] = field(default_factory=dict)
    lr_choice: LrChoice | None = None

    def declaration(self, name: str) -> Declaration | None:
        """The declaration of an architecture, or None."""
        try:
            return self.catalogue.declaration(name)
        except KeyError:
            return None

    def declarations(self) -> Mapping[str, Declaration]:
        """Those of the architectures in the grid, by name."""
        names = self.axes["architecture"].values if "architecture" in self.axes else ()
        return {name: found for name in names if (found := self.declaration(name))}

    def option_names(self) -> list[str]:
        """Options of any architecture that ships or stands in the grid."""
        known = {**{name: self.declaration(name) for name in self.catalogue.names()}, **self.declarations()}
        return list(dict.fromkeys(option for found in known.values() if found for option in found.options))

    def read(self, grid: Node, place: str) -> None:
        """Reads every axis under `grid`."""
        entries = dict(grid.mapping or {})
        if "architecture" in entries:  # first: the others' options depend on it
            self.axes["architecture"] = axis.read(
                "grid.architecture", entries["architecture"], self._name(), self.problems
            )
        else:
            shipped = ", ".join(self.catalogue.names())
            self._missing(place, "grid.architecture", f"required under grid: a list of architectures: {shipped}")
        if "depth" not in entries:
            self._missing(place, "grid.depth", "required under grid: depth: {blocks: [16]} or {sublayers: [32]}")
        order: list[str] = []
        for word, node in entries.items():
            known = set(self.axes) - {"architecture"} | set(order)
            if word == "depth":
                self._depth(node)
            elif word in fields.SEEDS:
                self.axes[word] = axis.read(f"grid.{word}", node, fields.loose(word), self.problems)
            elif word != "architecture":
                self._other(word, node)
            order += [key for key in self.axes if key not in known and (key != "architecture" or word == key)]
        self.axes = {key: self.axes[key] for key in order}
        for word in fields.SEEDS[1:]:
            if "seed" in self.axes and word in entries:
                allowed = "seed sets both: give seed alone, or the two apart (on the command line grid.seed=null)"
                self._refuse(entries[word], f"grid.{word}", f"{word} beside seed", allowed)

    def read_own(self, section: Node) -> None:
        """Reads `per_architecture`."""
        for name, node in (section.mapping or {}).items():
            path = f"per_architecture.{name}"
            declaration = self._declared(name, node, path)
            if declaration is None:
                continue
            if node.mapping is None:
                self._refuse(node, path, node.found(), f"must be {{option: value}}; {_having(declaration)}")
                continue
            values = self.own.setdefault(name, {})
            for option, given in node.mapping.items():
                if option in declaration.options:
                    wanted = kind.of_option(declaration.options[option])
                    values[option] = axis.read(f"{path}.{option}", given, wanted, self.problems)
                else:
                    near = nearest(option, declaration.options)
                    self._refuse(given, f"{path}.{option}", "an unknown option", _having(declaration), near)

    def check_options(self) -> None:
        """Refuses an axis of options that also stands under `per_architecture`: it could be read two ways."""
        for key, values in self.axes.items():
            option = key.removeprefix("options.")
            if option == key or not values.listed:
                continue
            for name in self.declarations():
                own = self.own.get(name, {}).get(option)
                if own is not None and not own.node.place.startswith("command line"):
                    allowed = (
                        f"{own.key} sets it too: give {name} its list there, or remove one of the two "
                        f"(on the command line grid.{option}=... replaces both)"
                    )
                    self._refuse(values.node, values.key, values.node.found(), allowed)

    def _name(self) -> Kind:
        names = self.catalogue.names()

        def convert(value: object) -> str:
            if not isinstance(value, str) or not value:
                raise ValueError(f"must be one of {', '.join(names)}, or package.module:Name")
            try:
                self.catalogue.declaration(value)
            except KeyError as error:
                if ":" in value:
                    raise ValueError(_unloadable(value, str(error.args[0]))) from error
                raise ValueError(f"must be one of {', '.join(names)}, or package.module:Name") from error
            except KeelLabError as error:
                raise ValueError(_unloadable(value, str(error))) from error
            return value

        return Kind(f"must be one of {', '.join(names)}, or package.module:Name", convert, words=names)

    def _declared(self, name: str, node: Node, path: str) -> Declaration | None:
        try:
            return self.catalogue.declaration(name)
        except KeyError:
            names = self.catalogue.names()
            self._refuse(
                node,
                path,
                "an unknown architecture",
                f"must be one of {', '.join(names)}, or package.module:Name",
                nearest(name, names),
            )
        except KeelLabError as error:
            self._refuse(node, path, name, _unloadable(name, str(error)))
        return None

    def _depth(self, node: Node) -> None:
        entries = node.mapping
        if entries is None or not entries:
            self._refuse(node, "grid.depth", node.found(), DEPTH_REMEDY)
            return
        for word, given in entries.items():
            if word not in fields.DEPTHS:
                near = nearest(word, fields.DEPTHS)
                self._refuse(given, f"grid.depth.{word}", "an unknown key", "allowed here: blocks or sublayers", near)
        if all(word in entries for word in fields.DEPTHS):
            self._refuse(node, "grid.depth", "blocks and sublayers", "give one of the two (2 sub-layers a block)")
        for word in fields.DEPTHS:
            if word in entries:
                self.axes["blocks"] = self._blocks(word, entries[word])

    def _blocks(self, word: str, node: Node) -> Values:
        path = f"grid.depth.{word}"
        values = axis.read(path, node, fields.loose(word), self.problems)
        if word == "blocks":
            return values
        for value, item in values.items:
            if value % 2:
                allowed = (
                    f"a block is two sub-layers, so their number is even (did you mean {value - 1} or {value + 1}?)"
                )
                self._refuse(item, path, item.found(), allowed)
        items = tuple((value // 2, item) for value, item in values.items if value % 2 == 0)
        return Values(path, node, items, values.listed)

    def _other(self, word: str, node: Node) -> None:
        """An axis that is an architecture's option or a key of a section."""
        path = f"grid.{word}"
        meant = fields.candidates(word, self.protocol, self.option_names())
        if not meant:
            self._unknown(word, node, path)
        elif len(meant) > 1:
            self._refuse(node, path, "a key with two meanings", f"write {' or '.join(meant)}")
        elif meant[0] in self.axes:
            self._refuse(node, path, "a second time", f"{self.axes[meant[0]].key} is the same axis: keep one")
        else:
            section, key = meant[0].split(".")
            if section == "options":
                self._option(key, node)
            elif meant[0] == "schedule.lr" and lr_choice.is_choice(node):
                self.lr_choice = lr_choice.read(path, node, self.problems)
            else:
                self.axes[meant[0]] = axis.read(path, node, fields.section(section)[key], self.problems)

    def _option(self, option: str, node: Node) -> None:
        path = f"grid.{option}"
        found: list[Problem] = []
        for declaration in self.declarations().values():
            if option in declaration.options:
                wanted = kind.of_option(declaration.options[option])
                self.axes.setdefault(f"options.{option}", axis.read(path, node, wanted, found))
        self.problems.extend(dict.fromkeys(found))
        if f"options.{option}" not in self.axes and self.declarations():
            having = "; ".join(_having(declaration) for declaration in self.declarations().values())
            self._refuse(node, path, "an axis that no architecture of this sweep uses", having)

    def _unknown(self, word: str, node: Node, path: str) -> None:
        if word in ("lr", "schedule.lr"):
            allowed = (
                "protocol ramp moves the learning rate itself: set ramp.from_lr and ramp.peak_lr, or use protocol: grid"
            )
            self._refuse(node, path, "an axis of protocol grid", allowed)
            return
        if word in fields.DEPTHS:
            self._refuse(node, path, "an unknown axis", f"write depth: {{{word}: {node.found()}}}")
            return
        options = self.option_names()
        sections = fields.axis_sections(self.protocol)
        known = ["architecture", "depth", *fields.SEEDS, *options]
        bare = [key.split(".")[1] for key in fields.dotted(self.protocol)]
        allowed = f"an axis is {', '.join(known)}, or a key of {', '.join(sections)} such as model.width"
        self._refuse(
            node, path, "an unknown axis", allowed, nearest(word, [*known, *bare, *fields.dotted(self.protocol)])
        )

    def _missing(self, place: str, key: str, allowed: str) -> None:
        self.problems.append(Problem(place, key, "nothing", allowed))

    def _refuse(self, node: Node, key: str, found: str, allowed: str, near: str | None = None) -> None:
        self.problems.append(Problem(node.place, key, found, allowed, near))


def _unloadable(name: str, why: str) -> str:
    return f"must be an architecture that can be loaded: {why.removeprefix(f'architecture {name!r}: ')}"


def _having(declaration: Declaration) -> str:
    """`keel has the option alpha`."""
    names = list(declaration.options)
    if not names:
        return f"{declaration.name} has no options"
    return f"{declaration.name} has the option{'s' if len(names) > 1 else ''} {', '.join(names)}"
