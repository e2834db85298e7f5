#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
"""mutants.py -- makes mutants of lines of C: each is the file with one small mistake

	tests/mutation/mutants.py  lists the rows of defects.toml that are mutants of their lines, with what kind of mutant

A statement is left out, or a branch, or the function returns before it; another value is returned; a condition is negated, or
always true; && and || take each other's place; a bound moves by one; a term is left out, or a side of ?:. Comments, texts,
declarations, assertions and calls that only log are left as they are.
"""

import pathlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import defects

# the folders of what users run
FOLDERS = ('src', 'apps', 'tools')
# what these call only says something, or stops what is wrong anyway
NO_MUTANT = re.compile(r'(assert|static_assert|\w*_LOG(_\w+)?|rpmai_log|f?printf|fputs|perror|DTRACE\w*|\w*PROBE\w*)\b\s*\(')
DECLARATION = re.compile(r'(enum|struct|union)\s*\w*\s*\{|'
                         r'(?!(return|goto|else|case|sizeof)\b)(struct\s+|const\s+|static\s+|unsigned\s+|enum\s+|union\s+)*'
                         r'\w+(\s+\**\s*(const\s+)?|\s*\*+\s*)\w+\s*([=;,[(]|$)')
BOUND = re.compile(r'(?<=\s)(<=|>=|<|>)(?=\s)')
MOVED = {'<': '<=', '<=': '<', '>': '>=', '>=': '>'}
OPPOSITE = {'==': '!=', '!=': '==', '<': '>=', '<=': '>', '>': '<=', '>=': '<'}
# an operand of + - |, after the sign
OPERAND = re.compile(r'\s[-+|]\s(?=(?:[\w.&*!~]|->)+(\()?)')


@dataclass
class Mutant:
    path: str
    line: int
    what: str
    old: str
    new: str
    text: str  # of the file

    def title(self) -> str:
        old, new = (' '.join(text.split()) for text in (self.old, self.new))
        return f'{self.path}:{self.line} {self.what}: {shorter(old)}' + (f' -> {shorter(new)}' if new else '')


def shorter(text: str) -> str:
    return text if len(text) <= 70 else text[:67] + '...'


@dataclass
class Statement:
    kind: str  # 'simple', 'declaration', 'return', 'jump', 'if', 'while', 'other'
    start: int
    end: int
    condition: tuple[int, int] = (0, 0)  # between its brackets
    alone: int = -1  # the start of the if or loop whose whole body this is
    then: tuple[int, int] = (0, 0)  # of an if
    has_else: bool = False


class Parser:
    """The statements of a function's body, in masked text."""

    def __init__(self, masked: str, start: int, end: int):
        self.masked, self.end, self.found = masked, end, []
        self.block(start)

    def skip(self, at: int) -> int:
        while at < self.end and self.masked[at].isspace():
            at += 1
        return at

    def block(self, at: int) -> None:
        at = self.skip(at)
        while at < self.end and self.masked[at] != '}':
            at = self.skip(self.statement(at))

    def simple_end(self, at: int) -> int:
        while at < self.end and self.masked[at] != ';':
            at = defects.closing(self.masked, at) if self.masked[at] in '([{' else at + 1
            if at < 0:
                return self.end
        return at + 1

    def statement(self, at: int, alone: int = -1) -> int:
        """Takes the one at this place; gives where it ends."""
        at = self.skip(at)
        if at >= self.end or self.masked[at] == '}':
            return at
        if self.masked[at] == '{':
            self.block(at + 1)
            return defects.closing(self.masked, at)
        if self.masked[at] == '#':
            return self.masked.find('\n', at) % self.end
        label = re.compile(r'(case\b[^:;]*|\w+\s*):(?!:)').match(self.masked, at)
        if label:
            return self.statement(label.end())
        word = re.compile(r'\w*').match(self.masked, at)[0]
        if word == 'do':
            end = self.simple_end(self.statement(at + 2))
            self.found.append(Statement('other', at, end, alone=alone))
            return end
        bracket = self.skip(at + len(word))
        if word and self.masked[bracket] == '(' and word != 'return':
            closed = defects.closing(self.masked, bracket)
            following = self.skip(closed)
            # also loops that are macros
            if word in ('if', 'while', 'for', 'switch') or re.match(r'[\w{]', self.masked[following:following + 1]):
                statement = Statement(word if word in ('if', 'while') else 'other', at, 0, (bracket + 1, closed - 1), alone)
                self.found.append(statement)
                end = self.statement(closed, at)
                statement.then = (self.skip(closed), end)
                if word == 'if' and re.compile(r'else\b').match(self.masked, self.skip(end)):
                    statement.has_else = True
                    end = self.statement(self.skip(end) + 4, at)
                statement.end = end
                return end
        end = self.simple_end(at)
        kind = {'return': 'return', 'goto': 'jump', 'break': 'jump', 'continue': 'jump'}.get(word, 'simple')
        if kind == 'simple' and DECLARATION.match(self.masked, at, end):
            kind = 'declaration'
        self.found.append(Statement(kind, at, end, alone=alone))
        return end


def negated(condition: str) -> str:
    """The opposite of a condition, in few signs."""
    inner = re.fullmatch(r'!\((.*)\)', condition, re.S)
    if inner and defects.closing(defects.mask(condition), 1) == len(condition):
        return inner[1]
    if re.fullmatch(r'![\w.>()\[\]-]+', condition):
        return condition[1:]
    compared = re.fullmatch(r'([^&|?=<>!,]*?) (==|!=|<=|>=|<|>) ([^&|?=<>!,]*)', condition.replace('->', '\0'))
    if compared and compared[1].count('(') == compared[1].count(')'):
        return f'{compared[1]} {OPPOSITE[compared[2]]} {compared[3]}'.replace('\0', '->')
    if re.fullmatch(r'[\w.>\[\]-]+(\([^()]*\))?', condition):
        return '!' + condition
    return f'!({condition})'


def term(masked: str, at: int, step: int) -> int:
    """Where the term of && or || ends that is beside the offset, to the left (step -1) or to the right (1)."""
    depth, opening, shutting = 0, '([{', ')]}'
    if step < 0:
        opening, shutting = shutting, opening
    while True:
        sign = masked[at]
        if sign in opening:
            depth += 1
        elif sign in shutting:
            if depth == 0:
                break
            depth -= 1
        elif depth == 0:
            pair = masked[at - 1:at + 1] if step < 0 else masked[at:at + 2]
            if sign in ';,?:{}' or pair in ('&&', '||'):
                break
            if sign == '=' and masked[at + 1] != '=' and masked[at - 1] not in '=!<>':
                break
        at += step
    if step > 0:
        return at
    at += 1
    return at + len(re.compile(r'\s*(return\b)?\s*').match(masked, at)[0])


def edits_of(text: str, masked: str, function: defects.Function, lines: set[int]) -> Iterator[tuple[int, int, str, str]]:
    """Each change of a function: from, to, what takes this place, and what kind of change it is."""
    def line(at: int) -> bool:
        return text.count('\n', 0, at) + 1 in lines

    heading = masked[function.start:function.body]
    early = 'return;' if re.match(r'(static\s+|inline\s+)*void\s+\w+\(', heading) else 'return 0;'
    statements = sorted(Parser(masked, function.body, function.end - 1).found, key=lambda found: found.start)
    returns = False
    for statement in statements:
        start, end = statement.start, statement.end
        if NO_MUTANT.match(masked, start):
            continue
        if line(start):
            with_condition = statement.alone >= 0 and line(statement.alone)
            if statement.kind not in ('declaration', 'return') and not statement.has_else and not with_condition:
                yield start, end, ';', 'left out'
            # once for a function: before the first of its lines
            if statement.kind in ('simple', 'if', 'while', 'other') and statement.alone < 0 and not returns:
                yield start, start, early + '\n', 'returns before'
                returns = True
            if statement.kind == 'return' and masked[start:end] not in ('return;', 'return NULL;'):
                value = ' '.join(text[start + 6:end - 1].split())
                other = {'0': '-1', 'true': 'false', 'false': 'true'}.get(value, '0')
                yield start, end, f'return {other};', 'other value'
            if statement.has_else:
                yield start, end, text[statement.then[1]:end].lstrip().removeprefix('else').lstrip(), 'branch left out'
                yield statement.then[1], end, '', 'branch left out'
        if statement.kind in ('if', 'while') and line(statement.condition[0]):
            condition = text[slice(*statement.condition)]
            yield *statement.condition, negated(condition), 'negated'
            if statement.kind == 'if':
                yield start, end, text[slice(*statement.then)], 'always'
        # what is in brackets of its own, or the whole statement
        if statement.kind in ('if', 'while', 'other'):
            first, beyond = statement.condition
        else:
            first, beyond = start, end
        for found in re.compile(r'&&|\|\|').finditer(masked, first, beyond):
            if not line(found.start()):
                continue
            yield *found.span(), '||' if found[0] == '&&' else '&&', 'swapped'
            left = term(masked, found.start() - 1, -1)
            right = term(masked, found.end(), 1)
            following = re.compile(r'\s*').match(masked, found.end()).end()
            yield left, following, '', 'without the term'
            if masked[right:right + 2] not in ('&&', '||'):
                yield len(text[:found.start()].rstrip()), right, '', 'without the term'
        for found in re.compile(r'\s\?\s').finditer(masked, first, beyond):
            if line(found.start()):
                left = term(masked, found.start(), -1)
                colon = term(masked, found.end(), 1)
                if masked[colon] == ':':
                    right = term(masked, colon + 1, 1)
                    yield left, right, text[found.end():colon].strip(), 'left side'
                    yield left, right, text[colon + 1:right].strip(), 'right side'
        for found in BOUND.finditer(masked, first, beyond):
            if line(found.start()):
                yield *found.span(), MOVED[found[0]], 'bound moved'
        for found in OPERAND.finditer(masked, first, beyond):
            if line(found.start()):
                operand = re.compile(r'(?:[\w.&*!~]|->)+').match(masked, found.end())
                beyond_it = defects.closing(masked, operand.end()) if masked[operand.end()] in '([' else operand.end()
                yield found.start(), beyond_it, '', 'without the term'


def mutants(path: str, text: str, lines: set[int]) -> list[Mutant]:
    """The mutants of these lines of a file."""
    masked, found, seen = defects.mask(text), [], {text}
    for function in defects.functions(text):
        first = text.count('\n', 0, function.start) + 1
        if lines.isdisjoint(range(first, text.count('\n', 0, function.end) + 2)):
            continue
        for start, end, new, what in sorted(edits_of(text, masked, function, lines)):
            mutant = text[:start] + new + text[end:]
            if mutant not in seen:
                seen.add(mutant)
                shown = text[start:end] or text[start:].split('\n')[0]
                found.append(Mutant(path, text.count('\n', 0, start) + 1, what, shown, new.strip(), mutant))
    return found


def git(root: pathlib.Path, *words: str) -> list[str]:
    return subprocess.run(['git', *words], cwd=root, stdout=subprocess.PIPE, text=True, errors='replace',
                          check=True).stdout.splitlines()


def changed_lines(base: str, folders: tuple[str, ...], root: pathlib.Path = defects.ROOT) -> dict[str, set[int]]:
    """The lines of C files in the work tree that have come since it left the commit base, by the path of the file."""
    files = [f'{folder}/*.[ch]' for folder in folders]
    changed: dict[str, set[int]] = {}
    for path in git(root, 'ls-files', '--others', '--exclude-standard', '--', *files):
        lines = (root / path).read_text(errors='replace').count('\n')
        changed[path] = set(range(1, lines + 2))
    path = ''
    for line in git(root, 'diff', '--merge-base', '--unified=0', '--no-color', '--no-ext-diff', '--src-prefix=a/',
                    '--dst-prefix=b/', base, '--', *files):
        if line.startswith('+++ '):
            path = line.removeprefix('+++ b/')
        found = re.match(r'@@ -\S+ \+(\d+)(?:,(\d+))? @@', line)
        if found and path.startswith(folders):
            count = int(found[2] or 1)
            changed.setdefault(path, set()).update(range(int(found[1]), int(found[1]) + count))
    return changed


def tokens(text: str) -> list[str]:
    """For a comparison: without white space, empty statements, and what keeps a compiler from warning of the defect."""
    signs: list[str] = []
    for sign in re.findall(r'\w+|[^\w\s]', re.sub(r'\(void\)\w+;', '', text)):
        if sign != ';' or signs[-1:] not in ([';'], ['{'], ['}'], [':']):
            signs.append(sign)
    return signs


def mutant_of(defect: defects.Defect, sources: defects.Sources) -> Mutant | None:
    """The mutant that is the same as a defect, if there is one."""
    (path, changed), *others = sources.changed(defect).items()
    if others or not path.endswith('.c'):
        return None
    text, lines = sources.text(path), set()
    for edit in defect.edits:
        _, start, end = sources.place(edit)
        lines |= set(range(text.count('\n', 0, start) + 1, text.count('\n', 0, end) + 2))
    wanted = tokens(changed)
    return next((mutant for mutant in mutants(path, text, lines) if tokens(mutant.text) == wanted), None)


if __name__ == '__main__':
    sources = defects.Sources(defects.ROOT)
    for defect in defects.load():
        mutant = mutant_of(defect, sources)
        if mutant:
            print(f'{defect.title()}: {mutant.what}')
