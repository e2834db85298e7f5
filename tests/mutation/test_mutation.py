#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
"""what finds the places of the seeded defects, and what makes mutants"""

import contextlib
import io
import pathlib
import shutil
import tempfile
import unittest

import defects
import mutants

C = '''\
/* of(x) { is no function } */
static int of(int x);

static int
of(int x)
{
	const char *text = "} /* no end";
	if (x < 0 && text)
		return -1; // a brace: }
	call(text,
		x);
	return 0;
}

void
other(void)
{
	call(1, 2);
	call(1, 2);
}

const int limit = 7;
'''


class Project:
    """Files below src/, with __ for a slash in their names, which end in .c."""

    def __init__(self, **files: str):
        self.texts = {f"{name.replace('__', '/')}.c": text for name, text in files.items()}

    def sources(self) -> defects.Sources:
        with tempfile.TemporaryDirectory() as root:
            for name, text in self.texts.items():
                path = pathlib.Path(root) / 'src' / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return defects.Sources(pathlib.Path(root))

    def changed(self, *edits: defects.Edit) -> dict[str, str]:
        """The files with a defect in them."""
        return self.sources().changed(defects.Defect(1, 'name', list(edits)))


class Functions(unittest.TestCase):
    def test_found_with_their_ends(self):
        found = list(defects.functions(C))
        self.assertEqual([function.name for function in found], ['of', 'other'])
        self.assertTrue(C[found[0].start:].startswith('static int\nof(int x)\n{'))
        self.assertTrue(C[:found[0].end].endswith('return 0;\n}'))
        self.assertTrue(C[found[0].body:].startswith('\n\tconst char'))

    def test_by_name(self):
        self.assertEqual([function.name for function in defects.functions(C, 'other')], ['other'])
        self.assertEqual(list(defects.functions(C, 'call')), [])

    def test_unfinished(self):
        for length in range(len(C)):
            for function in defects.functions(C[:length]):
                self.assertLessEqual(function.end, length)


class Places(unittest.TestCase):
    def refused(self, project: Project, edit: defects.Edit, why: str):
        with self.assertRaisesRegex(defects.Wrong, why):
            project.changed(edit)

    def test_white_space_counts_for_nothing(self):
        for old in ('call(text, x);', 'call(text,x) ;', 'call(\n\ttext,\nx);'):
            changed = Project(file=C).changed(defects.Edit(old, 'call(text);', 'of'))
            self.assertEqual(changed, {'src/file.c': C.replace('call(text,\n\t\tx);', 'call(text);')})

    def test_words_are_whole(self):
        project = Project(file=C)
        self.refused(project, defects.Edit('all(text, x)', '', 'of'), 'lacks')
        self.refused(project, defects.Edit('return0;', '', 'of'), 'lacks')

    def test_new_lines_are_indented_as_the_old(self):
        changed = Project(file=C).changed(defects.Edit('call(text, x);', 'if (x)\n\tcall(x);', 'of'))
        self.assertIn('\tif (x)\n\t\tcall(x);\n', changed['src/file.c'])

    def test_other_file_and_folder(self):
        edit = defects.Edit('return 0;', 'return 1;', 'of')
        for name in ('file', 'room__file', 'room__other'):
            self.assertEqual(list(Project(**{name: C}).changed(edit)), [f'src/{name.replace("__", "/")}.c'])

    def test_gone(self):
        project = Project(file=C)
        self.refused(project, defects.Edit('return 2;', '', 'of'), 'of lacks its text')
        self.refused(project, defects.Edit('return 0;', '', 'off'), 'off is not there')
        self.refused(project, defects.Edit('return 0;', '', 'other'), 'other lacks its text')
        self.refused(project, defects.Edit('limit = 7', '', '', 'none.c'), 'none.c is not there')

    def test_several(self):
        self.refused(Project(file=C), defects.Edit('call(1, 2);', '', 'other'), '2 times')
        both = Project(one=C, room__two=C)
        self.refused(both, defects.Edit('return 0;', '', 'of'), '2 times')
        self.assertEqual(list(both.changed(defects.Edit('return 0;', '', 'of', 'two.c'))), ['src/room/two.c'])

    def test_outside_of_functions(self):
        changed = Project(file=C).changed(defects.Edit('limit = 7;', 'limit = 8;', '', 'file.c'))
        self.assertEqual(changed['src/file.c'], C.replace('= 7', '= 8'))

    def test_several_places_of_one_defect(self):
        changed = Project(file=C, more='void\nmore(void)\n{\n\tcall(0);\n}\n').changed(
            defects.Edit('return 0;', 'return 1;', 'of'), defects.Edit('x < 0', 'x <= 0', 'of'),
            defects.Edit('call(0);', '', 'more'))
        self.assertEqual(changed['src/file.c'], C.replace('return 0', 'return 1').replace('x < 0', 'x <= 0'))
        self.assertNotIn('call', changed['src/more.c'])


class Table(unittest.TestCase):
    """utils/check-code defects"""

    def check(self, table: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            path = pathlib.Path(folder) / 'table.toml'
            path.write_text(table)
            return defects.check(path), out.getvalue()

    def test_row_that_is_not_found(self):
        row = "[[defect]]\nid = 1\nname = 'gone'\nfunction = 'rpma_mr_reg'\nold = 'this text is not there'\nnew = ''\n"
        status, out = self.check(row)
        self.assertEqual(status, 1)
        self.assertIn('001-gone: rpma_mr_reg lacks its text', out)

    def test_row_that_changes_nothing(self):
        row = "[[defect]]\nid = 1\nname = 'same'\nfile = 'rdma.h'\nold = 'struct rdma_api {'\nnew = 'struct rdma_api {'\n"
        status, out = self.check(row)
        self.assertEqual(status, 1)
        self.assertIn('001-same: it changes nothing', out)

    def test_row_that_is_wrong_in_itself(self):
        for wrong in ("fnuction = 'of'", 'id = 0'):
            row = f"[[defect]]\nid = 1\nname = 'a'\nold = 'x'\nnew = ''\n[[defect]]\nname = 'b'\nold = 'x'\nnew = ''\n{wrong}\n"
            row += '' if wrong.startswith('id') else 'id = 2\n'
            with self.assertRaises(SystemExit):
                self.check(row)
        with self.assertRaisesRegex(SystemExit, 'table.toml'):
            self.check('[[defect]]\nid: 1\n')


class Mutants(unittest.TestCase):
    def made(self, body: str, kind: str = 'int', lines: set[int] | None = None) -> set[tuple[str, str]]:
        """What is made of a function's body: the kind of change, and the body then, in one line."""
        text = f'static {kind}\nfunction(int a, int b)\n{{\n{body}\n}}\n'
        found = mutants.mutants('src/file.c', text, lines or set(range(1, text.count('\n') + 1)))
        for mutant in found:
            self.assertTrue(mutant.text.startswith(f'static {kind}\nfunction(int a, int b)\n{{\n'))
        return {(mutant.what, ' '.join(mutant.text.split('\n{\n')[1].removesuffix('\n}\n').split())) for mutant in found}

    def test_statement(self):
        self.assertEqual(self.made('\tcall(a,\n\t\tb);', 'void'), {
            ('left out', ';'), ('returns before', 'return; call(a, b);')})
        self.assertIn(('returns before', 'return 0; a = b;'), self.made('\ta = b;', 'void *'))

    def test_condition(self):
        self.assertEqual(self.made('\tif (a)\n\t\tb = 1;'), {
            ('left out', ';'), ('returns before', 'return 0; if (a) b = 1;'), ('negated', 'if (!a) b = 1;'),
            ('always', 'b = 1;')})
        for condition, opposite in (('!a', 'a'), ('a == b', 'a != b'), ('a->x < b', 'a->x >= b'), ('!(a && b)', 'a && b'),
                                    ('call(a)', '!call(a)'), ('a && b', '!(a && b)'), ('(a) + (b)', '!((a) + (b))'),
                                    ('!(a) && (b)', '!(!(a) && (b))'), ('call(a == b)', '!call(a == b)')):
            self.assertEqual(mutants.negated(condition), opposite)

    def test_branches(self):
        made = self.made('\tif (a)\n\t\tb = 1;\n\telse if (b)\n\t\tb = 2;\n\telse\n\t\tb = 3;')
        self.assertIn(('branch left out', 'if (b) b = 2; else b = 3;'), made)
        self.assertIn(('branch left out', 'if (a) b = 1; else b = 3;'), made)
        self.assertIn(('branch left out', 'if (a) b = 1; else if (b) b = 2;'), made)

    def test_terms(self):
        made = self.made('\treturn a && (b || call(a, b)) && a < b;')
        self.assertIn(('without the term', 'return (b || call(a, b)) && a < b;'), made)
        self.assertIn(('without the term', 'return a && a < b;'), made)
        self.assertIn(('without the term', 'return a && (b || call(a, b));'), made)
        self.assertIn(('without the term', 'return a && (b) && a < b;'), made)
        self.assertIn(('without the term', 'return a && (call(a, b)) && a < b;'), made)
        self.assertIn(('swapped', 'return a && (b && call(a, b)) && a < b;'), made)
        self.assertIn(('bound moved', 'return a && (b || call(a, b)) && a <= b;'), made)
        self.assertIn(('other value', 'return 0;'), made)
        self.assertIn(('without the term', 'a = b;'), self.made('\ta = b - call(a, b)[1];') | self.made('\ta = b + a;'))
        self.assertIn(('without the term', 'call(a | b);'), self.made('\tcall(a | b | FLAG);'))

    def test_sides(self):
        made = self.made('\ta = call(a > b ? a : b, 1);')
        self.assertIn(('left side', 'a = call(a, 1);'), made)
        self.assertIn(('right side', 'a = call(b, 1);'), made)

    def test_values(self):
        self.assertIn(('other value', 'return -1;'), self.made('\treturn 0;'))
        self.assertIn(('other value', 'return false;'), self.made('\treturn true;', 'bool'))
        self.assertEqual(self.made('\treturn NULL;', 'void *'), set())

    def test_loops(self):
        made = self.made('\tfor (int i = 0; i < a; i++) {\n\t\tif (i == b)\n\t\t\tcontinue;\n\t\tcall(i, 1);\n\t}\n'
                         '\tdo {\n\t\ta--;\n\t} while (a > b);')
        for loop in ('for (int i = 0; i <= a; i++)', 'for (int i = 0; i < a; i++)'):
            self.assertTrue(any(body.startswith(loop) for _, body in made), loop)
        self.assertTrue(any(body.endswith('do { ; } while (a > b);') for _, body in made))
        self.assertTrue(any('{ ; call(i, 1); }' in body for _, body in made))

    def test_what_is_left_as_it_is(self):
        for body in ('\tint c = 1;', '\tenum { MANY = 7 };', '\tconst struct thing *c;',
                     '\tassert(a && b);', '\tSOFTRDMA_LOG(ERROR, "a && b", a);',
                     '\t/* a = b && a; */', '\tstatic const char text[] = "a < b";', 'err_free:\n\tfprintf(stderr, "a && b");'):
            self.assertEqual(self.made(body), set(), body)

    def test_changed_lines_only(self):
        self.assertEqual(self.made('\ta = 1;\n\tb = 2;\n\ta = 3;', 'void', {5}), {
            ('left out', 'a = 1; ; a = 3;'), ('returns before', 'a = 1; return; b = 2; a = 3;')})
        self.assertEqual(self.made('\tif (a &&\n\t\tb)\n\t\treturn;', 'void', {5}), set())
        self.assertEqual(self.made('\ta = 1;', 'void', {1000}), set())

    def test_row_that_is_a_mutant(self):
        for old, new, what in (('return 0;', 'return -1;', 'other value'), ('call(text, x);', '(void)text;', 'left out'),
                               ('call(text, x);', 'call(x, text);', None)):
            defect = defects.Defect(1, 'name', [defects.Edit(old, new, 'of')])
            mutant = mutants.mutant_of(defect, Project(file=C).sources())
            self.assertEqual(mutant and mutant.what, what)

    @unittest.skipUnless(shutil.which('git'), 'git is not installed')
    def test_lines_of_a_change(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / 'src').mkdir()

            def git(*words: str):
                mutants.git(root, '-c', 'user.name=name', '-c', 'user.email=address', '-c', 'commit.gpgsign=false', *words)

            def write(name: str, *lines: str):
                (root / 'src' / name).write_text('\n'.join(lines) + '\n')

            write('one.c', 'a', 'b', 'c', 'd')
            write('gone.c', 'a')
            write('text.md', 'a')
            git('init', '-q', '-b', 'main')
            git('add', '.')
            git('commit', '-q', '-m', 'first')
            git('checkout', '-q', '-b', 'mine')
            write('one.c', 'a', 'B', 'd', 'e', 'f')
            git('commit', '-q', '-a', '-m', 'second')
            write('new.c', 'a', 'b')
            write('text.md', 'b')
            (root / 'src/gone.c').unlink()
            self.assertEqual(mutants.changed_lines('main', ('src',), root), {'src/one.c': {2, 4, 5}, 'src/new.c': {1, 2, 3}})
            # what the other branch has got meanwhile is no change of this one
            git('checkout', '-q', '-f', 'main')
            write('two.c', 'a')
            git('add', 'src/two.c')
            git('commit', '-q', '-m', 'third')
            git('checkout', '-q', '-f', 'mine')
            (root / 'src/new.c').unlink()
            self.assertEqual(mutants.changed_lines('main', ('src',), root), {'src/one.c': {2, 4, 5}})

    def test_every_source_can_be_read(self):
        sources = defects.Sources(defects.ROOT)
        for path in sorted({path for paths in sources.by_function.values() for path in paths}):
            if path.startswith(mutants.FOLDERS) and path.endswith('.c'):
                text = sources.text(path)
                found = mutants.mutants(path, text, set(range(1, text.count('\n', 0, 12000))))
                self.assertTrue(all(mutant.text != text for mutant in found))


if __name__ == '__main__':
    unittest.main()
