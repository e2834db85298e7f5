# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

"""pyverbs_results.py -- runs pyverbs' tests in this folder, and writes what each gives into the file that is named"""

import sys
import unittest
from importlib.machinery import SourceFileLoader

sys.path.insert(0, '.')
results = open(sys.argv.pop(1), 'w')


def one_line(text):
    return ' '.join(str(text).split())


class Results(unittest.TextTestResult):
    def tell(self, test, outcome):
        print(f'{test.id()} | {outcome}', file=results, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, 'pass')

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, 'skip: ' + one_line(reason))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, 'fail: ' + one_line(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, 'fail: error, ' + one_line(err[1]))


from args_parser import parser  # noqa: E402, it is beside the tests

tests = SourceFileLoader('tests', './__init__.py').load_module()
parser.parse_args()
unittest.main(module=tests, testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Results), exit=False)
