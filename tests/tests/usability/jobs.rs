//! The jobs. Each is done in an empty folder and must succeed.

use crate::same::Job;

pub const FAMILIES: &[&[Job]] = &[GIT, BUILD, INTERPRETERS, SHELL, FILES, SHARED];

// A row a line, however long.
#[rustfmt::skip]
pub const GIT: &[Job] = &[
    ("git: init, commit, log", "git init -qb main && echo a > a && git add a && git commit -qm one && git log --format='%s %an' && git status --short --branch"),
    ("git: branch, merge, conflict", "git init -qb main && echo a > a && git add a && git commit -qm one && git checkout -qb b && echo b > a && git commit -qam b && git checkout -q main && echo c > a && git commit -qam c; git merge b; git checkout --theirs a && git add a && git commit -qm merged && git log --format=%s --graph"),
    ("git: rebase, amend, cherry-pick", "git init -qb main && for i in 1 2 3; do echo $i > $i; git add $i; git commit -qm $i; done && git checkout -qb b HEAD~2 && echo b > b && git add b && git commit -qm b && git rebase -q main && git commit -q --amend -m b2 && git checkout -q main && git cherry-pick b >/dev/null && git log --format=%s"),
    ("git: stash, reset, clean, restore", "git init -qb main && echo a > a && git add a && git commit -qm one && echo b > a && git stash -q && cat a && git stash pop -q && cat a && touch junk && git clean -fdq && git reset -q --hard && git restore a && cat a"),
    ("git: worktree add, list, remove", "git init -qb main && echo a > a && git add a && git commit -qm one && git worktree add -q w && (cd w && echo b > a && git commit -qam two && git log --format=%s) && git worktree remove --force w && git branch -D w | cut -d' ' -f1-3"),
    ("git: clone, fetch, pull, push", "git init -qb main --bare o.git && git clone -q o.git a 2>/dev/null && cd a && echo a > a && git add a && git commit -qm one && git push -q origin HEAD && git clone -q ../o.git ../b && cd ../b && echo b > b && git add b && git commit -qm two && git push -q && cd ../a && git pull -q && git log --format=%s"),
    ("git: submodule", "git init -qb main lib && git -C lib commit -q --allow-empty -m lib && git init -qb main top && cd top && git -c protocol.file.allow=always submodule --quiet add ../lib lib && git commit -qm top && git submodule status | cut -c42- && git log --format=%s"),
    ("git: tag, describe, archive, bundle", "git init -qb main && echo a > a && git add a && git commit -qm one && git tag -a v1 -m v1 && git describe && git archive --format=tar HEAD | tar t && git bundle create -q b.tar main && git bundle verify -q b.tar && git shortlog -s HEAD"),
    ("git: diff, apply, format-patch, am", "git init -qb main && seq 20 > a && git add a && git commit -qm one && sed -i s/7/seven/ a && git diff > p && git checkout -q a && git apply p && git diff --stat && git commit -qam two && git format-patch -q -1 && git reset -q --hard HEAD~ && git am -q 0001* && git log --format=%s"),
    ("git: bisect, grep, blame", "git init -qb main && for i in $(seq 8); do echo $i >> a; git add a; git commit -qm $i; done && git bisect start HEAD HEAD~7 >/dev/null && git bisect run sh -c '! grep -q 5 a' | grep -cE 'is the first .?bad.? commit' && git bisect reset 2>/dev/null && git grep -n 3 && git blame -s a | cut -d' ' -f2- | tail -1"),
    ("git: gc, fsck, large file", "git init -qb main && head -c 3000000 /dev/zero > z && git add z && git commit -qm z && git gc -q && git fsck 2>/dev/null && git count-objects -v | grep in-pack && rm -rf .git/objects/info"),
];

#[rustfmt::skip]
pub const BUILD: &[Job] = &[
    ("gcc: several files, a library, run", "printf 'int f(void){return 42;}' > f.c && printf '#include <stdio.h>\\nint f(void);int main(void){printf(\"%%d\\\\n\",f());}' > m.c && gcc -c f.c && ar rcD libf.a f.o && gcc -O2 m.c -L. -lf -o m && ./m && gcc -shared -fPIC f.c -o libf.so && gcc m.c ./libf.so -o m2 && ./m2 && rm m m2 *.o *.a *.so"),
    ("g++: templates, exceptions, threads", "printf '#include <iostream>\\n#include <thread>\\n#include <vector>\\nint main(){std::vector<int>v(4);std::thread t([&]{v[1]=7;});t.join();try{v.at(9);}catch(const std::exception&){std::cout<<v[1]<<\"\\\\n\";}}' > m.cpp && g++ -pthread m.cpp -o m && ./m && rm m"),
    ("make: parallel, incremental", "printf 'all: a b c\\n\\n%%: %%.in\\n\\tcp $< $@\\n' > Makefile && touch a.in b.in c.in && make -sj4 && make -s && touch -d '1 hour' a.in && make | grep -c cp && ls"),
    ("cmake: configure, build, test", "printf 'cmake_minimum_required(VERSION 3.10)\\nproject(p C)\\nenable_testing()\\nadd_executable(m m.c)\\nadd_test(t m)\\n' > CMakeLists.txt && echo 'int main(void){return 0;}' > m.c && cmake -S . -B build >/dev/null && cmake --build build -j2 >/dev/null && ctest --test-dir build 2>/dev/null | grep '100%'"),
    ("rustc: compile and run", "echo 'fn main(){println!(\"{}\", (1..=10).product::<u64>());}' > m.rs && rustc -O m.rs && ./m && rm m"),
    ("cargo: new, build, test, run, offline", "cargo new -q --vcs none p 2>/dev/null && cd p && echo '#[test] fn t() { assert_eq!(2 + 2, 4); }' >> src/main.rs && cargo build -q --offline && cargo test -q --offline | grep -o '1 passed' && cargo run -q --offline"),
    ("gdb: run to the end", "echo 'int main(void){return 3;}' > m.c && gcc -g m.c -o m && gdb -batch -ex 'break main' -ex run -ex 'continue' ./m 2>/dev/null | grep -c 'exited with code 03'; rm m"),
    ("strace: a child's calls", "strace -f -e trace=openat -o t true && grep -c 'exited with 0' t; rm t"),
    ("configure script: tests of the system", "printf '#!/bin/sh\\nfor h in stdio.h unistd.h sys/socket.h pthread.h; do echo \"#include <$h>\" | cc -E - >/dev/null 2>&1 && echo \"$h yes\"; done\\necho \"cpus $(nproc)\"\\n' > configure && sh configure"),
];

#[rustfmt::skip]
pub const INTERPRETERS: &[Job] = &[
    ("python: standard library", "python3 -c \"import json,re,hashlib,datetime,decimal,uuid,ssl,ctypes,zlib,csv; print(json.dumps({'a':[1,2]}), hashlib.sha256(b'x').hexdigest()[:9], decimal.Decimal(1)/3)\""),
    ("python: threads, processes, pools", "python3 -c \"
from multiprocessing import Pool
from concurrent.futures import ThreadPoolExecutor
if __name__ == '__main__':
    with Pool(3) as p: print(p.map(abs, range(-5, 5)))
    with ThreadPoolExecutor(8) as t: print(sum(t.map(len, ['ab'] * 100)))\""),
    ("python: asyncio, subprocess", "python3 -c \"
import asyncio
async def main():
    p = await asyncio.create_subprocess_exec('tr', 'a-z', 'A-Z', stdin=-1, stdout=-1)
    print((await p.communicate(b'hello'))[0]); await asyncio.gather(*[asyncio.sleep(0.01) for _ in range(50)])
asyncio.run(main())\""),
    ("python: unittest", "printf 'import unittest\\nclass T(unittest.TestCase):\\n    def test(self): self.assertEqual(1, 1)\\n' > test_a.py && python3 -m unittest 2>&1 | tail -1"),
    ("python: venv, pip from a local wheel", "mkdir -p w/x w/x-1.0.dist-info && echo 'def f(): return 42' > w/x/__init__.py && printf 'Metadata-Version: 2.1\\nName: x\\nVersion: 1.0\\n' > w/x-1.0.dist-info/METADATA && printf 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' > w/x-1.0.dist-info/WHEEL && printf 'x/__init__.py,,\\nx-1.0.dist-info/METADATA,,\\nx-1.0.dist-info/WHEEL,,\\nx-1.0.dist-info/RECORD,,\\n' > w/x-1.0.dist-info/RECORD && (cd w && python3 -m zipfile -c ../x-1.0-py3-none-any.whl x x-1.0.dist-info) && /usr/bin/python3 -m venv venv && venv/bin/pip install -q --no-cache-dir --no-index --disable-pip-version-check ./x-1.0-py3-none-any.whl && venv/bin/python -c 'import x; print(x.f())'"),
    ("python: sqlite", "python3 -c \"
import sqlite3
c = sqlite3.connect('a.db'); c.execute('create table t(a)'); c.executemany('insert into t values(?)', [(i,) for i in range(1000)]); c.commit()
print(c.execute('select sum(a) from t').fetchone())\""),
    ("python: temporary files", "python3 -c \"
import tempfile, os
with tempfile.NamedTemporaryFile() as f: f.write(b'x'); f.flush(); print(os.path.getsize(f.name))
with tempfile.TemporaryDirectory() as d: open(d + '/a', 'w').close(); print(os.listdir(d))\""),
    ("python: a terminal of its own", "python3 -c \"import pty, os; print(os.WEXITSTATUS(pty.spawn(['sh', '-c', 'test -t 0 && test -t 1; exit \\$?'])))\" </dev/null"),
    ("node: modules, promises, workers", "node -e \"
const { Worker } = require('worker_threads'), os = require('os'), fs = require('fs');
new Worker('require(\\\"worker_threads\\\").parentPort.postMessage(6*7)', { eval: true }).on('message', n => console.log(n, fs.existsSync('.'), os.EOL === '\\n'))\""),
    ("node: child processes, http on loopback", "node -e \"
const http = require('http'), { execSync } = require('child_process'); console.log(execSync('echo child').toString().trim());
const s = http.createServer((q, r) => r.end('served')).listen(0, '127.0.0.1', () => http.get({ port: s.address().port, host: '127.0.0.1' }, r => r.on('data', d => { console.log(String(d)); s.close(); process.exit() })))\""),
    ("npm: pack, install, run, offline", "export npm_config_cache=$PWD/build/cache npm_config_update_notifier=false npm_config_offline=true npm_config_audit=false npm_config_fund=false; mkdir dep app && (cd dep && echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > package.json && echo 'module.exports = 42' > index.js && npm pack --silent) && cd app && echo '{\"name\":\"app\",\"version\":\"1.0.0\",\"scripts\":{\"start\":\"node -p \\\"require(\\\\\\\"dep\\\\\\\")\\\"\"}}' > package.json && npm install --silent ../dep/dep-1.0.0.tgz && npm start --silent && rm -f package-lock.json package.json"),
    ("perl: text and sockets", "perl -MSocket -e 'socketpair(A,B,AF_UNIX,SOCK_STREAM,PF_UNSPEC) or die; syswrite A,\"hi\\n\"; sysread B,$x,9; print $x' && printf 'b a\\n' | perl -lane 'print join \" \", sort @F'"),
    ("jq, awk, sed, bc", "echo '{\"a\":[1,2,3]}' | jq -c '.a|map(.*2)' && seq 10 | awk '{s+=$1} END {print s}' && echo abc | sed 's/b/X/'"),
];

#[rustfmt::skip]
pub const SHELL: &[Job] = &[
    ("process substitution", "diff <(seq 3) <(seq 3) && paste <(seq 2) <(seq 2 3) && echo x | tee >(cat > copy) >/dev/null; sleep 0.1; cat copy"),
    ("job control", "set -m; sleep 5 & kill -STOP %1; kill -CONT %1; kill %1; wait %1; echo $?; (exit 3) & wait $!; echo $?; jobs | wc -l"),
    ("traps, signals, exit", "bash -c 'trap \"echo term\" TERM; kill -TERM $$; echo after'; bash -c 'trap \"echo bye\" EXIT; exit 4'; echo $?; bash -c 'kill -9 $$'; echo $?"),
    ("pipes, here documents, coprocesses", "coproc cat; echo co >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x; cat <<< here; cat <<E\n$((6*7))\nE\nseq 100000 | head -1; echo ${PIPESTATUS[1]}"),
    ("ps, pgrep, pstree of one's own", "sleep 60 & until ps -o comm= -p $! | grep -x sleep; do command sleep 0.02; done; pgrep -x sleep >/dev/null && echo found && ps -o pid= --ppid $$ | wc -l | grep -qv '^0' && kill $!"),
    ("nohup, setsid, timeout, nice", "nohup true >/dev/null 2>&1; setsid -w sh -c 'exit 5'; echo $?; timeout 0.2 sleep 5; echo $?; nice -n 5 sh -c nice; timeout -s KILL 0.2 sleep 5 2>/dev/null; echo $?"),
    ("xargs and parallel work", "seq 20 | xargs -P 4 -n 1 sh -c 'echo $0' | sort -n | tail -1; find . -maxdepth 0 -exec echo {} +; seq 3 | xargs -I@ echo n@"),
    ("locale, sorting, time zone", "locale charmap; printf 'b\\nä\\na\\n' | sort; printf 'é' | wc -m; date -d @0 +%H:%M; LC_ALL=C sort <<< $'B\\na'"),
    ("many processes", "for i in $(seq 300); do (exit 0) & done; wait; echo done"),
    ("a big environment and arguments", "X=$(head -c 100000 /dev/zero | tr '\\0' x) sh -c 'echo ${#X}'; getconf ARG_MAX >/dev/null && echo ok"),
    ("who one is", "id -u; id -un; whoami; echo ~ | grep -c /; umask; pwd | sed 's,.*/,,'; test -w . && echo writable"),
    ("a flood of threads", "python3 -c \"
import threading
ts = [threading.Thread(target=lambda: None) for _ in range(200)]
[t.start() for t in ts]; [t.join() for t in ts]; print('ok')\""),
    ("script: a terminal", "script -qec 'tty >/dev/null && echo tty' /dev/null </dev/null | tr -d '\\r'"),
];

#[rustfmt::skip]
pub const FILES: &[Job] = &[
    ("tar: what was somebody else's", "mkdir d && echo x > d/f && tar --owner=1234 --group=1234 -cf a.tar d && rm -r d && tar xf a.tar && cat d/f && rm -r d a.tar"),
    ("tar, gzip, xz, zip", "mkdir d && seq 1000 > d/a && ln -s a d/l && tar czf a.tgz d && tar cJf b.tar d && rm -r d && tar xzf a.tgz && ls -l d | wc -l && tar tf b.tar && (cd d && zip -q ../c.zip a && unzip -p ../c.zip a | tail -1) && zstd -q d/a -o d/a.zst && zstd -dqc d/a.zst | head -1 && rm d/a.zst"),
    ("rsync: local, incremental", "mkdir a && seq 9 > a/x && ln -s x a/l && rsync -a a/ b && echo more >> a/x && rsync -ai a/ b | cut -c1-2 && diff -r a b && rsync -a --delete --exclude l a/ b && ls b"),
    ("sqlite: command line", "sqlite3 a.db 'create table t(a); insert into t values(1),(2); pragma journal_mode=wal; select sum(a) from t;' && sqlite3 a.db 'select count(*) from t'"),
    ("a big sort", "seq 300000 | shuf --random-source=<(yes) > s && sort -n --parallel=2 -S 2M s | sha256sum && sort -n s | tail -1 && rm s"),
    ("find, du, stat, touch", "mkdir -p a/b && touch -d 2020-01-01 a/b/c && find . -type f -newermt 2019-01-01 && stat -c '%a %s %Y %F' a/b/c && du -s --apparent-size a/b >/dev/null && echo ok"),
    ("links, modes, umask", "umask 027; echo a > a; ln a b; ln -s a c; chmod 640 a; stat -c '%a %h' a b; readlink c; cp -a c d; mkdir -m 700 e; mv b e; ls -R"),
    ("names of every kind", "touch 'a b' $'new\\nline' ünï $'\\xff\\xfe' -- -dash; mkdir $'\\x01'; ls | wc -l; rm -- -dash; find . -print0 | tr -cd '\\0' | wc -c"),
    ("deep folders", "d=$(printf 'x/%.0s' $(seq 200)); mkdir -p $d && touch ${d}end && find . -name end | wc -c && rm -r x"),
    ("sparse files, truncate, fallocate", "truncate -s 10G s && stat -c %s s && fallocate -l 1M f && dd if=/dev/zero of=s bs=1 seek=5G count=1 conv=notrunc status=none && stat -c %s f && rm s f"),
    ("patch, diff, comm, split", "seq 9 > a; seq 2 10 > b; diff -u a b | sed 1,2d > p; diff -u a b > q; cp a c; patch -s c q; cmp b c && split -n 3 a x && cat x* | cmp - a && comm -12 <(sort a) <(sort b) | wc -l; rm q"),
    ("flock, mkfifo", "mkfifo p; (echo through > p &) ; cat p; exec 9>l; flock 9; flock -n l true; echo $?; flock -u 9; flock -n l echo locked; rm p"),
    ("watching files", "python3 -c \"
import ctypes, os
libc = ctypes.CDLL(None); fd = libc.inotify_init1(0); assert libc.inotify_add_watch(fd, b'.', 0x100) >= 0
open('new', 'w').close(); print(b'new' in os.read(fd, 999))\""),
    ("extended attributes, mmap, sendfile", "python3 -c \"
import mmap, os
with open('m', 'wb+') as f:
    f.truncate(9000); m = mmap.mmap(f.fileno(), 9000); m[5000:5003] = b'abc'; m.flush(); f.seek(5000); print(f.read(3))
a = os.open('m', os.O_RDONLY); b = os.open('n', os.O_WRONLY | os.O_CREAT, 0o644); print(os.sendfile(b, a, 0, 9000), os.copy_file_range(a, b, 100))
try: os.setxattr('m', 'user.x', b'y'); print(os.getxattr('m', 'user.x'))
except OSError as e: print(e.errno)\""),
    ("temporary folders", "t=$(mktemp -d) && echo x > $t/x && cat $t/x && rm -r $t && touch /tmp/$$ && rm /tmp/$$ && echo ok"),
];

#[rustfmt::skip]
pub const SHARED: &[Job] = &[
    ("a server and a client on loopback", "mkdir s && echo served > s/f && (cd s && exec python3 -u -m http.server --bind 127.0.0.1 0 > ../log 2>&1) & p=$!; for i in $(seq 100); do n=$(grep -o 'port [0-9]*' log 2>/dev/null | cut -d' ' -f2); [ -n \"$n\" ] && break; sleep 0.1; done; curl -sS http://127.0.0.1:$n/f; curl -sS http://localhost:$n/f; kill $p; rm log"),
    ("IPv6 and UDP on loopback", "python3 -c \"
import socket
a = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); a.bind(('::1', 0)); b = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); b.sendto(b'hi', a.getsockname()); print(a.recv(9))
print(socket.getaddrinfo('localhost', 80, socket.AF_INET)[0][4], socket.gethostbyname('127.0.0.1'))\""),
    ("unix sockets in the workspace", "python3 -c \"
import socket, os
s = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect('sock'); c.send(b'hi'); print(s.accept()[0].recv(9)); os.unlink('sock')\""),
    ("abstract sockets, passing descriptors", "python3 -c \"
import socket, os
s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + 'mine%d' % os.getpid()); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(s.getsockname()); d = s.accept()[0]
socket.send_fds(c, [b'x'], [os.open('/dev/null', os.O_RDWR)]); print(len(socket.recv_fds(d, 9, 1)[1]))\""),
    ("/dev/shm, semaphores, shared memory", "python3 -c \"
from multiprocessing import shared_memory, Semaphore
m = shared_memory.SharedMemory(create=True, size=100); m.buf[0] = 7; n = shared_memory.SharedMemory(m.name); print(n.buf[0]); n.close(); m.close(); m.unlink(); s = Semaphore(1); print(s.acquire())\" && echo x > /dev/shm/$$ && cat /dev/shm/$$ && rm /dev/shm/$$"),
    ("epoll, eventfd, timerfd, memfd", "python3 -c \"
import os, select, ctypes
libc = ctypes.CDLL(None); e = libc.eventfd(1, 0); p = select.epoll(); p.register(e, select.EPOLLIN); print(len(p.poll(1))); m = os.memfd_create('x'); print(os.write(m, b'abc')); print(libc.timerfd_create(1, 0) > 0)\""),
    ("devices", "head -c 4 /dev/urandom | wc -c; echo x > /dev/null; head -c 3 /dev/zero | od -An -tx1; (echo > /dev/full) 2>/dev/null; echo $?; test -c /dev/tty && echo tty; ls /dev/fd/ | head -1; echo err > /dev/stderr 2>/dev/null; echo out > /dev/stdout"),
    ("/proc of one's own", "grep -c processor /proc/cpuinfo; grep -q MemTotal /proc/meminfo && echo mem; readlink /proc/self/exe | sed 's,.*/,,'; cat /proc/self/comm; cat /proc/sys/kernel/ostype; nproc; uname -s; test -r /proc/loadavg && echo load; getconf PAGESIZE"),
    ("names of users, hosts and services", "getent passwd root | cut -d: -f1; getent hosts localhost | grep -c localhost; getent services ssh | grep -c 22; hostname >/dev/null && echo host"),
    ("certificates and hashes", "openssl dgst -sha256 /dev/null | sed 's/.*= //'; openssl req -x509 -newkey rsa:2048 -nodes -keyout k.db -out c.db -subj /CN=x -days 1 2>/dev/null && openssl x509 -in c.db -noout -subject; ls /etc/ssl/certs | wc -l"),
];
