#!/usr/bin/python3 -I
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
"""nbdkit, with memory of a keeper in the place of a plugin; nbdkit as it is where that is not possible"""
import getopt, os, re, socket, subprocess, sys, tempfile, time

PLUGINS = 'data', 'example1', 'file', 'memory', 'null', 'pattern', 'sparse-random'
PARAMETERS = 'allocator', 'base64', 'data', 'file', 'percent', 'raw', 'runlength', 'seed', 'size'
LONG = '''debug= dump-config dump-plugin exit-with-parent export= export-name= exportname= filter= foreground group= help
    ip-addr= ipaddr= log= mask-handshake= new-style newstyle no-fork no-sr old-style oldstyle pid-file= pidfile= port= read-only
    readonly run= selinux-label= single stdin swap threads= tls= tls-certificates= tls-psk= unix= user= verbose version'''
real, used = os.environ['NBDKIT'], os.environ['USED']


def run(arguments):
    os.execv(real, ['nbdkit'] + arguments)


def content(command):  # what nbdinfo or nbdcopy prints of the plugin that is replaced
    done = subprocess.run([real, plugin] + of_plugin + ['--run', command], stdin=subprocess.DEVNULL, capture_output=True)
    return done.stdout.strip() if done.returncode == 0 else run(sys.argv[1:])


options, words = getopt.gnu_getopt(sys.argv[1:], 'D:e:fg:i:noP:p:rst:u:U:vV', LONG.split())
names = [name for name, value in options]
filters = [value for name, value in options if name == '--filter']
plugin = words[0] if words else None
if plugin not in PLUGINS or {'--dump-plugin', '--dump-config', '--version', '-V', '--help'} & set(names):
    run(sys.argv[1:])
of_plugin, others = [], []
for word in words[1:]:
    key = re.match(r'([A-Za-z][\w.-]*)=', word)
    (of_plugin if not key or key[1] in PARAMETERS else others).append(word)

size = int(content('nbdinfo --size "$uri"'))
lent = max(-(-size // 4096) * 4096, 4096)  # no keeper lends less than a page
folder = tempfile.mkdtemp(dir=used)
if plugin in ('example1', 'memory', 'null'):
    path = 'dram:'
elif plugin == 'file':
    path = os.path.realpath(of_plugin[0].removeprefix('file='))
    try:  # a keeper lends it to one server only, and only as it is
        if size != lent:
            raise FileExistsError
        os.close(os.open('%s/%d' % (used, os.stat(path).st_ino), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        run(sys.argv[1:])
else:
    path = folder + '/disk'
    content('touch "%s" && nbdcopy "$uri" "%s"' % (path, path))
    os.truncate(path, lent)
if size != lent:
    if 'truncate' in filters:
        run(sys.argv[1:])
    options.append(('--filter', 'truncate'))
    others.append('truncate=%d' % size)

with socket.socket() as s:
    s.bind((os.environ['ADDRESS'], 0))
    port = s.getsockname()[1]
what = 'm=%s,size=%d' % (path, lent) if path == 'dram:' else 'm=%s,identity=%s/identity,durable' % (path, folder)
with open(folder + '/log', 'wb') as log:
    keeper = subprocess.Popen([os.environ['KEEPER'], '--listen', '%s:%d' % (os.environ['ADDRESS'], port), '--lend', what],
                              stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
while b'listening on' not in open(folder + '/log', 'rb').read():
    if keeper.poll() is not None:
        sys.exit('the keeper has failed')
    time.sleep(0.02)
run([word for name, value in options for word in ([name + '=' + value] if value and name[1] == '-' else [name, value])
     if word] + [os.environ['PLUGIN']] + others + ['host=' + os.environ['ADDRESS'], 'port=%d' % port, 'name=m'] +
    ['volatile=true'] * (path == 'dram:'))
