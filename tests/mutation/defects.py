#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
"""defects.py -- finds the places of the seeded defects of defects.toml

	tests/mutation/defects.py            prints each defect that has no place, or several; the status is 1 then
	tests/mutation/defects.py --table F  the same for the table F
"""

import argparse
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / 'tests/mutation/defects.toml'
# where defects can be
FOLDERS = ('src', 'apps', 'tools', 'examples', 'include', 'benchmarks', 'utils')

# a comment, a string or a character; none of them is code
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# a definition as the project writes it: the name begins a line
NAME = re.compile(r'^(\w+)\(', re.M)


def mask(text: str) -> str:
    """The text with a space in the place of each character of comments and strings, so that offsets stay the same."""
    return NO_CODE.sub(lambda found: re.sub(r'[^\n]', ' ', found[0]), text)


def closing(masked: str, start: int) -> int:
    """The offset after the bracket that closes the one at start; -1 if none does."""
    depth = 0
    for found in re.compile(r'[][(){}]').finditer(masked, start):
        depth += 1 if found[0] in '([{' else -1
        if depth == 0:
            return found.end()
    return -1


@dataclass
class Function:
    name: str
    start: int  # of the line of its type
    body: int  # of what follows its first brace
    end: int  # after its last brace


def functions(text: str, name: str | None = None) -> Iterator[Function]:
    """The functions that a C file defines; with a name, those of this name."""
    masked = mask(text)
    for found in NAME.finditer(masked):
        if name and found[1] != name:
            continue
        brace = closing(masked, found.end() - 1)
        if brace < 0 or masked[brace:].lstrip()[:1] != '{':
            continue
        brace = masked.index('{', brace)
        end = masked.find('\n}', brace)
        if end < 0:
            continue
        start = found.start()
        if start and masked[start - 2] not in ';}\n':
            start = masked.rfind('\n', 0, start - 1) + 1
        yield Function(found[1], start, brace + 1, end + 2)


def pattern(text: str) -> re.Pattern[str]:
    """Finds the text whatever its white space is."""
    tokens = re.findall(r'\w+|[^\w\s]', text)
    parts = []
    for before, token in zip([''] + tokens, tokens):
        if parts:
            parts.append(r'\s+' if re.match(r'\w', before) and re.match(r'\w', token) else r'\s*')
        parts.append(re.escape(token))
    ends = (r'(?<!\w)' if re.match(r'\w', text.strip()) else '', r'(?!\w)' if re.search(r'\w$', text.strip()) else '')
    return re.compile(ends[0] + ''.join(parts) + ends[1])


@dataclass
class Edit:
    """One place: text of a function, or of a file where it is in no function, and what takes its place."""
    old: str
    new: str
    function: str = ''
    file: str = ''

    def where(self) -> str:
        return ' of '.join(name for name in (self.function, self.file) if name)


@dataclass
class Defect:
    id: int
    name: str
    edits: list[Edit]
    tests: list[str] = field(default_factory=list)
    why: str = ''

    def title(self) -> str:
        return f'{self.id:03d}-{self.name}'


class Wrong(Exception):
    """Why a defect has no place."""


class Sources:
    """The files below a folder, read once."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.texts: dict[str, str] = {}
        self.by_function: dict[str, list[str]] = {}
        self.by_base: dict[str, list[str]] = {}
        for folder in FOLDERS:
            for path in sorted((root / folder).rglob('*')):
                if path.is_file():
                    self.by_base.setdefault(path.name, []).append(str(path.relative_to(root)))
                    if path.suffix in ('.c', '.h'):
                        for name in set(NAME.findall(self.text(str(path.relative_to(root))))):
                            self.by_function.setdefault(name, []).append(str(path.relative_to(root)))

    def text(self, path: str) -> str:
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text(errors='surrogateescape')
        return self.texts[path]

    def regions(self, edit: Edit) -> list[tuple[str, int, int]]:
        """Where the text of an edit may be: path, first and last offset."""
        files = self.by_base.get(edit.file, []) if edit.file else self.by_function.get(edit.function, [])
        if not edit.function:
            return [(path, 0, len(self.text(path))) for path in files]
        return [(path, function.start, function.end) for path in files
                for function in functions(self.text(path), edit.function)]

    def place(self, edit: Edit) -> tuple[str, int, int]:
        """The one place of an edit: path, first and last offset."""
        regions = self.regions(edit)
        if not regions:
            raise Wrong(f'{edit.where()} is not there')
        places = [(path, found.start(), found.end()) for path, start, end in regions
                  for found in pattern(edit.old).finditer(self.text(path), start, end)]
        if len(places) != 1:
            raise Wrong(f'{edit.where()} has its text {len(places)} times' if places else
                        f'{edit.where()} lacks its text')
        return places[0]

    def changed(self, defect: Defect) -> dict[str, str]:
        """The files that a defect changes, by their path, with the defect in them."""
        places = sorted(((*self.place(edit), edit.new) for edit in defect.edits), reverse=True)
        texts: dict[str, str] = {}
        for path, start, end, new in places:
            text = texts.get(path, self.text(path))
            line = text.rfind('\n', 0, start) + 1
            indent = re.match(r'[ \t]*', text[line:])[0]
            texts[path] = text[:start] + new.replace('\n', '\n' + indent) + text[end:]
        return texts


def load(table: pathlib.Path = TABLE) -> list[Defect]:
    """The rows of the table; one that is wrong in itself ends the program."""
    try:
        rows = tomllib.loads(table.read_text())['defect']
    except tomllib.TOMLDecodeError as why:
        sys.exit(f'{table}: {why}')
    defects = []
    known = {'id', 'name', 'function', 'file', 'old', 'new', 'tests', 'why', 'also'}
    for row in rows:
        if set(row) - known:
            sys.exit(f'{table}: {row["id"]} has unknown keys: {" ".join(set(row) - known)}')
        edits = [Edit(edit['old'].strip(), edit['new'].strip(), edit.get('function', ''), edit.get('file', ''))
                 for edit in [row] + row.get('also', [])]
        defects.append(Defect(row['id'], row['name'], edits, row.get('tests', []), row.get('why', '')))
    ids = [defect.id for defect in defects]
    if len(set(ids)) != len(ids) or ids != sorted(ids):
        sys.exit(f'{table}: the numbers do not rise')
    return defects


def check(table: pathlib.Path) -> int:
    sources, wrong = Sources(ROOT), 0
    for defect in load(table):
        try:
            changed = sources.changed(defect)
            if all(text == sources.text(path) for path, text in changed.items()):
                raise Wrong('it changes nothing')
        except Wrong as why:
            print(f'{defect.title()}: {why}')
            wrong += 1
    if wrong:
        print(f'{wrong} seeded defects have no place any longer: change their rows in {table.name}')
    return 1 if wrong else 0


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='finds the places of the seeded defects')
    parser.add_argument('--table', type=pathlib.Path, default=TABLE)
    sys.exit(check(parser.parse_args().table))
