#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# migrate.py -- live migrations of QEMU by RDMA, and a comparison of all memory of both guests
#
#	migrate.py ADDRESS RESULTS
#
# The memory of a guest is a file, so it can be compared after QEMU has ended. Before a migration each page of the source
# has its own content, and the destination has zeroes. The guest is emulated, not virtualized, and its disk is one sector
# with a program that never stops writing. Works in the current folder.

import glob
import json
import os
import socket
import subprocess
import sys
import time

PAGE = 4096
SIZE = 64 << 20
PATIENCE = float(os.environ.get('OTHERS_PATIENCE', 1))
DEADLINE = 60 * PATIENCE

# adds one to the first word of each page from 0x10000 to 0x90000, for ever
PROGRAM = bytes([
    0xb8, 0x00, 0x10,              # start: mov $0x1000, %ax
    0x8e, 0xd8,                    # next: mov %ax, %ds
    0x66, 0xff, 0x06, 0x00, 0x00,  # incl (0)
    0x05, 0x00, 0x01,              # add $0x100, %ax
    0x3d, 0x00, 0x90,              # cmp $0x9000, %ax
    0x72, 0xf1,                    # jb next
    0xeb, 0xec,                    # jmp start
])


class Failed(Exception):
    pass


class Guest:
    """a QEMU with its memory in a file, and a connection to its monitor"""

    def __init__(self, name, *options):
        self.name = name
        self.events = []
        listener = socket.socket(socket.AF_UNIX)
        path = name + '.monitor'
        if os.path.exists(path):
            os.unlink(path)
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(DEADLINE)
        with open(name + '.log', 'w') as log:
            self.process = subprocess.Popen(
                ['qemu-system-x86_64', '-no-user-config', '-nodefaults', '-display', 'none',
                 '-machine', 'pc,accel=tcg,memory-backend=memory', '-m', str(SIZE >> 20),
                 '-object', f'memory-backend-file,id=memory,size={SIZE},mem-path={name}.memory,share=on',
                 '-drive', 'if=ide,format=raw,snapshot=on,file=disk',
                 '-qmp', f'unix:{path}', *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.connection = listener.accept()[0]
        except OSError as error:
            self.end()
            raise Failed(f'{name}: no monitor ({error})')
        finally:
            listener.close()
        self.connection.settimeout(DEADLINE)
        self.stream = self.connection.makefile('r')
        try:
            self.call('qmp_capabilities')
            self.capability('events')
        except (Failed, OSError):
            self.end()
            raise

    def message(self):
        line = self.stream.readline()
        if not line:
            raise Failed(f'{self.name}: QEMU has ended')
        message = json.loads(line)
        if 'event' in message:
            self.events.append(message)
        return message

    def call(self, command, **arguments):
        self.connection.sendall(json.dumps({'execute': command, 'arguments': arguments}).encode() + b'\n')
        while True:
            message = self.message()
            if 'error' in message:
                raise Failed(f'{self.name}: {command}: {message["error"]["desc"]}')
            if 'return' in message:
                return message['return']

    def capability(self, name):
        self.call('migrate-set-capabilities', capabilities=[{'capability': name, 'state': True}])

    def await_status(self, *wanted):
        """waits for an event of the migration with one of these states, and returns it"""
        seen = 0
        while True:
            while seen < len(self.events):
                event = self.events[seen]
                seen += 1
                if event['event'] == 'MIGRATION' and event['data']['status'] in wanted:
                    return event['data']['status']
            self.message()

    def write_in_guest(self):
        """waits until the guest's program has changed its last page"""
        end = time.monotonic() + DEADLINE
        before = self.page(0x8f000)
        while self.page(0x8f000) == before:
            if time.monotonic() > end:
                raise Failed(f'{self.name}: the guest does not write')
            time.sleep(0.01)

    def page(self, at):
        with open(self.name + '.memory', 'rb') as file:
            file.seek(at)
            return file.read(PAGE)

    def end(self, kill=False):
        if kill:
            self.process.kill()
        elif self.process.poll() is None and hasattr(self, 'stream'):
            try:
                self.call('quit')
            except (Failed, OSError):
                pass
        try:
            self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if hasattr(self, 'stream'):
            self.stream.close()
            self.connection.close()


def fill(name, content):
    with open(name + '.memory', 'wb') as file:
        file.truncate(SIZE)
        for page in range(SIZE // PAGE) if content else ():
            file.write(((page + 1) * 0x9e3779b97f4a7c15 % (1 << 64)).to_bytes(8, 'little') * (PAGE // 8))


def differing():
    """number of pages that differ"""
    with open('source.memory', 'rb') as source, open('destination.memory', 'rb') as destination:
        return sum(source.read(PAGE) != destination.read(PAGE) for _ in range(SIZE // PAGE))


def expect(what, condition):
    if not condition:
        raise Failed(what)


class Pair:
    """a source, and a destination that waits for it"""

    port = 21600

    def __init__(self, address, *options, capability=None, running=False):
        Pair.port += 1
        self.uri = f'rdma:{address}:{Pair.port}'
        fill('source', True)
        fill('destination', False)
        self.guests = []
        try:
            self.start(options, capability, running)
        except (Failed, OSError):
            self.end()
            raise

    def start(self, options, capability, running):
        self.source = self.add(Guest('source', *(() if running else ('-S',)), *options))
        # it stays paused after the migration, so that its memory can be compared
        self.destination = self.add(Guest('destination', '-S', '-incoming', 'defer', *options))
        if capability:
            for guest in self.guests:
                guest.capability(capability)
        if running:
            self.source.write_in_guest()
        # the control of the comparison: the pages that the firmware has not written differ, and so do those that it has
        self.before = differing()
        expect(f'only {self.before} pages differ before the migration', self.before > SIZE // PAGE * 9 // 10)
        self.destination.call('migrate-incoming', uri=self.uri)

    def add(self, guest):
        self.guests.append(guest)
        return guest

    def end(self):
        for guest in self.guests:
            guest.end()

    def migrate(self):
        self.source.call('migrate', uri=self.uri)
        status = self.source.await_status('completed', 'failed', 'cancelled')
        expect(f'the source says "{status}"', status == 'completed')
        self.destination.await_status('completed')
        info = self.source.call('query-migrate')['ram']
        expect('fewer pages were sent than there are', info['normal'] + info['duplicate'] >= SIZE // PAGE)
        self.end()
        for guest in self.guests:
            expect(f'{guest.name}: status {guest.process.returncode}', guest.process.returncode == 0)
        count = differing()
        expect(f'{count} pages differ', count == 0)


def migration(address, **options):
    pair = Pair(address, **options)
    try:
        pair.migrate()
    finally:
        pair.end()


def killed_destination(address):
    """the source says so, has its memory, runs on, and migrates to another destination"""
    pair = Pair(address, running=True)
    try:
        # without a limit it could end before the destination does
        pair.source.call('migrate-set-parameters', **{'max-bandwidth': 4 << 20})
        pair.source.call('migrate', uri=pair.uri)
        pair.source.await_status('active')
        pair.destination.end(kill=True)
        pair.guests.remove(pair.destination)
        status = pair.source.await_status('completed', 'failed')
        expect(f'the source says "{status}"', status == 'failed')
        pair.source.write_in_guest()
        pair.source.events.clear()
        pair.source.call('migrate-set-parameters', **{'max-bandwidth': 1 << 30})
        fill('destination', False)
        pair.destination = pair.add(Guest('destination', '-S', '-incoming', 'defer'))
        Pair.port += 1
        pair.uri = f'rdma:{address}:{Pair.port}'
        pair.destination.call('migrate-incoming', uri=pair.uri)
        pair.migrate()
    finally:
        pair.end()


def cancelled(address):
    """the source has its memory, and runs on"""
    pair = Pair(address, running=True)
    try:
        pair.source.call('migrate-set-parameters', **{'max-bandwidth': 4 << 20})
        pair.source.call('migrate', uri=pair.uri)
        pair.source.await_status('active')
        pair.source.call('migrate_cancel')
        pair.source.await_status('cancelled')
        pair.source.write_in_guest()
    finally:
        pair.end()


def main():
    address, results = sys.argv[1:]
    with open('disk', 'wb') as file:
        file.write(PROGRAM.ljust(510, b'\0') + b'\x55\xaa')
    tests = {
        'paused guest': lambda: migration(address),
        'paused guest, memory pinned': lambda: migration(address, capability='rdma-pin-all'),
        'guest that writes': lambda: migration(address, running=True),
        'guest that writes, memory pinned': lambda: migration(address, running=True, capability='rdma-pin-all'),
        'destination killed, then another one': lambda: killed_destination(address),
        'cancelled': lambda: cancelled(address),
    }
    for name, test in tests.items():
        began = time.monotonic()
        try:
            test()
            line = 'pass'
        except (Failed, OSError, subprocess.SubprocessError) as error:
            line = f'fail: {error}'
            for log in glob.glob('*.log'):
                with open(log) as file:
                    print(f'-- {log}\n{file.read()}')
        print(f'{name}: {line}; {time.monotonic() - began:.1f} s', flush=True)
        with open(results, 'a') as file:
            file.write(f'{name} | {line}\n')


main()
