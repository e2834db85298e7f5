# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

"""pyverbs_results.py -- runs pyverbs' tests in this folder, and writes their results to the named file

One process runs them all. If a test crashes it, or has not ended after SECONDS_OF_A_TEST (60), another process continues with
the next test.
"""

import mmap
import os
import signal
import sys
import unittest
from importlib.machinery import SourceFileLoader

sys.path.insert(0, '.')
results = open(sys.argv.pop(1), 'a')
seconds = int(os.environ.get('SECONDS_OF_A_TEST', '60'))


def one_line(text):
    return ' '.join(str(text).split())


def tell(test, outcome):
    print(f'{test.id()} | {outcome}', file=results, flush=True)


class Results(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        started[0:4] = number[id(test)].to_bytes(4, 'little')
        signal.alarm(seconds)

    def addSuccess(self, test):
        super().addSuccess(test)
        tell(test, 'pass')

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        tell(test, 'skip: ' + one_line(reason))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        tell(test, 'fail: ' + one_line(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        tell(test, 'fail: error, ' + one_line(err[1]))


def flat(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


from args_parser import parser  # noqa: E402, it is in the folder of the tests

tests = SourceFileLoader('tests', './__init__.py').load_module()
parser.parse_args()
order = list(flat(unittest.defaultTestLoader.loadTestsFromModule(tests)))
number = {id(test): i for i, test in enumerate(order)}
started = mmap.mmap(-1, 4)  # the number of the last test started, for the parent process
first = 0
while first < len(order):
    child = os.fork()
    if child == 0:
        unittest.TextTestRunner(verbosity=2, resultclass=Results).run(unittest.TestSuite(order[first:]))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        break
    first = int.from_bytes(started[0:4], 'little') + 1
    tell(order[first - 1], f'fail: ended by {signal.Signals(os.WTERMSIG(status)).name}')
