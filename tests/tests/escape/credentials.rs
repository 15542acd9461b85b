//! Ways to secrets, by the environment and the home folder; ways to use up the machine; ways at Stockade itself.

use crate::technique::Proof::{Changes, Reads, Says, Springs};
use crate::technique::{Technique, py, sh};

// A row a line, however long.
#[rustfmt::skip]
pub const TABLE: &[Technique] = &[
    sh("env-list", "secrets in the environment", "environ(7)", "env; set; export -p", Reads),
    sh("env-proc", "the environment as the kernel has it", "proc_pid_environ(5)", "cat /proc/self/environ /proc/$$/environ", Reads),
    sh("env-child", "what a child gets", "execve(2)", "bash -c 'python3 -c \"import os; print(os.environ)\"'", Reads),
    sh("env-name", "a secret by its name", "environ(7)", "echo $AWS_SECRET_ACCESS_KEY $GITHUB_TOKEN $OPENAI_API_KEY $NPM_TOKEN", Reads),
    sh("cred-ssh", "private keys", "ssh(1)", "cat ~/.ssh/id_* {home}/.ssh/*", Reads),
    sh("cred-aws", "a cloud's account", "Shai-Hulud (2025)", "cat ~/.aws/credentials {home}/.aws/credentials", Reads),
    sh("cred-netrc", "passwords for servers", "netrc(5)", "cat ~/.netrc {home}/.netrc", Reads),
    sh("cred-cargo", "a registry's token", "cargo-login(1)", "cat ~/.cargo/credentials.toml {home}/.cargo/credentials.toml", Reads),
    sh("cred-npm", "a registry's token", "s1ngularity (2025)", "cat ~/.npmrc {home}/.npmrc", Reads),
    sh("cred-git", "passwords for repositories", "git-credential-store(1)", "cat ~/.git-credentials; git -c credential.helper='store --file {home}/.git-credentials' credential fill <<< $'protocol=https\\nhost=example.invalid\\n'", Reads),
    sh("cred-docker", "a container registry's password", "docker-login(1)", "cat ~/.docker/config.json {home}/.docker/config.json", Reads),
    sh("cred-gh", "a code host's token", "s1ngularity (2025)", "cat ~/.config/gh/hosts.yml {home}/.config/gh/hosts.yml", Reads),
    sh("cred-any", "whatever lies in the home folder", "Shai-Hulud (2025)", "grep -rh fake-secret ~ {home}; find / -xdev -path '*home*' -name 'passwords*' -exec cat {} + 2>/dev/null | head -c 9999", Reads),
    sh("cred-home-granted", "secrets, where the home folder itself may be read", "spec 5.4", "cat {home}/.ssh/* {home}/.aws/* {home}/.netrc {home}/.npmrc {home}/.git-credentials {home}/.docker/* {home}/.cargo/*", Reads).with(&["--read", "{home}"]),
    sh("cred-shadow", "passwords of users", "shadow(5)", "grep -c . /etc/shadow /etc/gshadow | grep -v ':0' && echo REACHED", Says).root(),
    sh("cred-tmp", "what others left in /tmp", "hier(7)", "[ -e {outside} ] && echo REACHED; ls /tmp /var/tmp | grep -q stockade-test && ls {outside}/secret && echo REACHED", Says).takes("mount_tree"),
    sh("cred-logs", "logs of the machine", "hier(7)", "[ -d /var/log ] && echo REACHED", Says).takes("mount_tree"),
    sh("cred-machine", "who this machine is", "machine-id(5), dmi", "[ -r /sys/class/dmi/id/product_uuid ] || [ -r /proc/sys/kernel/random/boot_id ] && [ -d /sys/class ] && echo REACHED", Says).takes("mount_tree"),
    // Things that the host's own programs would obey, by variables of the host that lead into the workspace.
    sh("load-path", "a program of a usual name in the workspace", "environ(7)", "printf '#!/bin/sh\\ntouch {trap}/sprung\\n' > ls; chmod +x ls; mkdir -p {home}/bin && cp ls {home}/bin/ls", Springs("PATH={home}/bin:$PATH; ls")),
    sh("load-bashrc", "what a shell reads when it starts", "bash(1)", "echo 'touch {trap}/sprung' >> ~/.bashrc; echo 'touch {trap}/sprung' >> {home}/.bashrc", Springs("bash -i -c true </dev/null")),
    sh("load-profile", "what a log-in reads", "bash(1)", "echo 'touch {trap}/sprung' >> {home}/.profile", Springs("bash -l -c true")),
    sh("load-gitconfig", "git's settings of the user", "git-config(1)", "git config --file {home}/.gitconfig core.fsmonitor 'touch {trap}/sprung; false'; git config --global core.fsmonitor 'touch {trap}/sprung; false'", Springs("git status")),
    // Bounded bombs: far from what could hurt the machine, above what the options allow.
    py("bomb-processes", "more processes than allowed", "fork bomb", "
count = 0
try:
    for _ in range(450):
        if os.fork() == 0: time.sleep(3); os._exit(0)
        count += 1
except OSError: pass
count >= 450 and print('REACHED')", Says).with(&["--limit", "pids=320", "--timeout", "5s"]),
    py("bomb-memory", "more memory than allowed", "OOM", "block = bytearray(300 << 20); block[::4096] = b'x' * len(block[::4096]); time.sleep(1); print('REACHED')", Says).with(&["--limit", "memory=100M"]),
    py("bomb-memory-tree", "more memory than allowed, by many", "OOM", "
for _ in range(6):
    if os.fork() == 0: block = bytearray(50 << 20); block[::4096] = b'x' * len(block[::4096]); time.sleep(2); os._exit(0)
time.sleep(2.2); print('REACHED')", Says).with(&["--limit", "memory=150M"]),
    py("bomb-files", "more open files than allowed", "EMFILE", "
try: files = [open('/dev/null') for _ in range(300)]; print('REACHED')
except OSError: pass", Says).with(&["--limit", "files=100"]),
    py("bomb-cpu", "more time on the processor than allowed", "setrlimit(2)", "
end = time.process_time() + 1.6
while time.process_time() < end: pass
print('REACHED')", Says).with(&["--limit", "cpu=1"]),
    sh("bomb-time", "more time than allowed", "timeout(1)", "trap '' TERM INT HUP; sleep 0.8; echo REACHED", Says).with(&["--timeout", "200ms", "--grace", "100ms"]),
    sh("bomb-raise", "raise one's own limits", "prlimit(2)", "ulimit -Sn 200 && ulimit -Sn 300 && echo REACHED", Says).with(&["--limit", "files=100"]),
    // Stockade itself.
    sh("self-binary", "replace the program that confines", "CVE-2019-5736", "cp /bin/true {outside}/victim; cp --remove-destination /bin/true {outside}/victim", Changes),
    sh("self-fds", "descriptors of the runtime", "CVE-2024-21626", "for fd in /proc/self/fd/*; do n=${fd##*/}; [ $n -gt 2 ] && [ -e $fd ] && readlink $fd | grep -v ^/proc | grep -q . && echo REACHED $n; done", Says),
    sh("self-lifeline", "write to whatever the runtime listens to", "CVE-2016-9962", "echo exfil | tee /proc/1/fd/* /proc/$PPID/fd/* > /dev/null 2>&1; [ -r /proc/$PPID/fd/8 ] && echo REACHED", Says),
    sh("self-memory", "the memory of the init", "proc_pid_mem(5)", "head -c 1 /proc/$PPID/maps | grep -q . && echo REACHED", Says),
];
