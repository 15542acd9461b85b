//! Tools that take a program as an option, or keep a command under a name to run it later: where something is forbidden, each asks (spec 2.5).

use serde_json::json;
use std::fs;
use stockade_rules::{RuleLayer, RuleScope, RuleSet, Verdict};

/// Each runs `rm x`, at once or when what it defines is used. What lies in a file of its own (`make -f x`) is known by that file's name, and not
/// meant here.
#[rustfmt::skip]
const HELPERS: &[&str] = &[
    // An interpreter or a program as an option.
    "pip --python rm install x", "pip3 --python=rm install x", "pip install --python rm x", "uv pip install --python rm x", "uv venv --python rm", "virtualenv -p rm x",
    "virtualenv --python=rm x", "pipenv --python rm", "poetry env use rm", "tox --discover rm", "pipx install --python rm x", 
    "npm --node-options=--require=./x test", "npm --scripts-prepend-node-path=x --script-shell=rm run a", "npm install --git=rm x", "npm --shell=rm explore x", "npm --editor=rm edit x",
    "npm --viewer=rm help x", "npm --browser=rm docs x", "node-gyp --python=rm build", "yarn --script-shell rm run a", "pnpm --script-shell=rm run a", "corepack x rm",
    "cargo --config target.x.runner='rm' run", "cargo --config=build.rustc='rm' build", "cargo clippy --config alias.x=rm", "rustc -C linker=rm a.rs", "rustc -Clinker=rm a.rs", "rustdoc --test-builder rm a.rs",
    "rustdoc --runtool rm a.rs", "gcc -wrapper rm,x a.c", "clang -fuse-ld=rm a.c", "go build -toolexec rm ./...", "go build -toolexec='rm x' .",
    "make CC=rm", "make --eval='x:;rm y'", "make MAKE=rm", "cmake -DCMAKE_C_COMPILER=rm .", "bazel build --run_under=rm x",
    "bazel run --run_under rm x", "mvn -Dexec.executable=rm exec:exec", "rake -e 'sh %(rm x)'",
    "tar --rsh-command=rm -xf h:a", "tar --rmt-command=rm -xf h:a", "tar -F rm -cf a b", "tar --info-script=rm -cf a b", "tar --new-volume-script rm -cf a b", "tar --use-compress-program rm -cf a b",
    "tar --to-command rm -xf a", "cpio --rsh-command=rm -i", "cpio -i -F h:a --rsh-command rm", "zip -T -TT rm a b", "zip a b -T --unzip-command rm", 
    "rsync -e rm a h:b", "rsync --rsh rm a h:b", "rsync --rsync-path=rm a h:b", "rsync --rsync-path 'rm x' a h:b", "rsync -ae rm a h:b", "scp -S rm a h:b", "sftp -S rm h", "sftp -D rm", "ssh -o LocalCommand=rm h",
    "ssh -oProxyCommand=rm h", "ssh -F x h", "ssh-copy-id -o ProxyCommand=rm h",
    "find . -exec rm x ;", "find -files0-from f -exec rm {} +", "fd --exec-batch rm", "vim --cmd 'sil !rm x'", "vim -es '+!rm x'", "nvim --headless -c '!rm x'", "vimdiff -c '!rm x' a b",
    "less --lesskey-content='x shell rm' f", "more '+!rm x' f", "man -P rm ls", "man --html=rm ls", "man -H rm ls", 
    "sed 's/a/rm x/e' f", 
    "curl -o ~/.bashrc h", "wget --use-askpass=rm h", "wget -e use_askpass=rm h", "wget --execute=use_askpass=rm h", "aria2c --on-download-complete=rm h", "yt-dlp --exec rm h", "youtube-dl --exec 'rm x' h",
    "docker run x rm y", "docker build --ssh x .", "docker compose exec a rm", "docker --config . ps", "podman run --hooks-dir x y", "kubectl exec p -- rm x", "kubectl --kubeconfig=x get p", "kubectl diff -f x", "helm --post-renderer rm install a b", "ansible all -m shell -a 'rm x'", 
    // Behind `--`, behind a subcommand, behind a `!`.
    "npm explore x -- rm v", "npm explore x rm v", "npm explor x -- rm v", "npm --prefix d exec -- rm v", "npm --workspace a explore x -- rm v", "npm exe -- rm v", "pnpm --filter a exec rm v", "yarn workspace a exec rm v", "yarn workspaces foreach exec rm v", "meson devenv rm x", "meson devenv -C b rm x", "libtool --mode=execute rm x", "meson test --wrapper rm", "ctest --build-and-test a b --test-command rm", 
    "lftp -c '!rm x'", "lftp -e '!rm x' h", "lftp <<< '!rm x'", "telnet <<< '!rm x'", "echo '!rm x' | telnet", "smbclient //h/s -c '!rm x'", "ncftp <<< '!rm x'", "debugfs -R '!rm'", "debugfs <<< '!rm'", "gpg --photo-viewer 'rm x' --list-keys", "gpg --photo-v=rm --list-keys", "gpg --agent-program rm -d a", "gpg-agent --pinentry-program rm", "git submodule--helper foreach rm x", "git merge-index rm -a",
    "cmake --build . -- SHELL=rm", "cmake --build . --target x -- --eval='x:;rm y'", "cargo rustc -- -C linker=rm", "cargo rustc --release -- -Clinker=rm", "cargo rustdoc -- --runtool rm", "coredumpctl debug --debugger=rm", "coredumpctl gdb --debugger rm", "perf report --objdump=rm", "sdiff --diff-program=rm a b", "diff3 --diff-program rm a b c", "mdadm --monitor --program=rm x",
    // Aliases, hooks, settings that run a command later.
    "gh alias set x '!rm y'", "gh alias set --shell x 'rm y'", "gh alias import f", "gh config set pager rm", "gh config set browser rm", "gh config set editor 'rm x'", "gh extension exec x", "gh codespace ssh -- rm x", "gh repo clone a/b -- -u rm",
    "glab alias set x '!rm y'", "hub alias rm",
    "git config alias.x '!rm y'", "git config --add core.hooksPath .", "git config set core.editor rm", "git config core.sshCommand rm", "git config credential.helper '!rm x'", "git config diff.x.textconv rm", "git config filter.x.clean rm", "git config merge.x.driver rm", "git config include.path x", 
    "git -c core.editor=rm commit", "git rebase -x 'rm x' HEAD~1", "git rebase --exec 'rm x' HEAD~1", "git bisect run rm", "git difftool -x rm", "git difftool --extcmd=rm", "git clone -c core.fsmonitor=rm a", "git clone --config core.x=rm a", "git clone --upload-pack rm a", "git fetch --upload-pack=rm a", "git ls-remote --upload-pack=rm a",
    "git push --receive-pack=rm a", "git push --exec=rm a", "git archive --exec=rm --remote=a HEAD", "git send-email --smtp-server=/bin/rm x", "git send-email --sendmail-cmd=rm x", "git send-email --to-cmd=rm x", "git instaweb --httpd=rm", "git daemon --access-hook=rm", "git filter-branch --tree-filter 'rm x'", "git submodule foreach rm", "git grep -Orm x", "git var GIT_EDITOR; git --exec-path=. x", "git remote-ext a 'rm x'", "git clone 'ext::rm x' y", "git worktree add x -c a=b; git hook run x",
    "npm config set script-shell rm", "npm set script-shell=rm", "npm config set node-options=--require=x", "npm pkg set scripts.test='rm x'", "npm set-script test 'rm x'", "yarn config set yarnPath x", "pnpm config set script-shell rm", "pip config set global.python rm", "pip config edit --editor rm", "cargo new x --config a=b", "go env -w CC=rm", "go env -w GOFLAGS=-toolexec=rm",
    "git config --global alias.x '!rm y'", "hg --config hooks.pre-x=rm x", "svn --config-option config:helpers:diff-cmd=rm diff", "svn --editor-cmd rm ci", "bzr diff --using rm", "crontab f", "at now -f x", "systemd-run rm x", "tmux new -d rm x", "screen -dm rm x", "byobu new rm",
    "aws configure set credential_process rm", "kubectl config set-credentials x --exec-command=rm", "docker plugin install x", "entr rm", "ls | entr -s 'rm x'", "watch rm x", "watchman-make -p x --run rm", "inotifywait -m . | sh", "strace -o '|rm x' ls", "strace rm x", "ltrace rm x", "perf stat rm x", "valgrind rm x", "gdb --args rm x", "tcpdump -z rm -w f", "dpkg --pre-invoke=rm -i x", "apt-get -o Dpkg::Pre-Invoke::=rm update", "apt -o APT::Update::Pre-Invoke::=rm update",
    "psql -f x", "mysql --pager=rm", "sqlite3 x '.system rm y'", "nmap --script x h", "socat TCP:h:1 SYSTEM:'rm x'", "php -d auto_prepend_file=x -v", "php -S h:1 x.php", "ruby -r ./x -e 1", "perl -d:x f", "perl -I. -Mx f", "python3 -m x", "python3 -X importtime -c 1", "node --import ./x f", "node -r ./x f", "java -XX:OnError=rm x", "java -XX:OnOutOfMemoryError='rm x' x", "deno run -A x --allow-run=rm", "R -f x", "latexmk -e 'system(q(rm x))' a", "pdflatex --shell-escape a", "pandoc --filter rm a", "pandoc -F rm a", "pandoc --pdf-engine=rm a", "gs -dNOSAFER x", "pylint --init-hook='import os' .", "protoc --plugin=x=rm a", "protoc --x_out=. --plugin=rm a",
];

// spec 2.5
#[test]
fn a_tool_that_is_given_a_program_or_defines_a_command_asks_where_something_is_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    let scope = RuleScope { workspace: "/w".into(), home: Some("/home/u".into()) };
    fs::write(&file, "deny = [\"Bash(rm:*)\"]\nallow = [\"Bash\"]").unwrap();
    let mut rules = RuleSet::default();
    rules.add_file(RuleLayer::Project, &file).unwrap();
    let wrong: Vec<&str> = HELPERS
        .iter()
        .copied()
        .filter(|line| {
            let opinion = rules.judge("Bash", &json!({ "command": line }), &scope);
            !matches!(opinion.map(|opinion| opinion.verdict), Some(Verdict::Ask | Verdict::Deny))
        })
        .collect();
    assert_eq!(wrong, Vec::<&str>::new());
    // And what has nothing to do with it is left alone.
    #[rustfmt::skip]
    let harmless = [
        "pip install -r requirements.txt", "uv run --python 3.12 pytest", "uv venv -p python3.11", "gh pr list", "gh alias list", "gh config get editor",
        "npm config get registry", "npm run test", "go env GOPATH", "aws s3 ls", "git remote -v", "poetry install", "bazel test //a", "pandoc a.md", "pip config list",
        "rustc -O a.rs", "gh repo view a/b", "npm ls", "npm ls --all", "npm explain x", "npm --prefix web ci", "cmake --build build", "cmake --build . -- -j8 all", "cargo rustc --release", "cargo test -- link_tests", "gpg --list-keys", "gpg --verify a.sig a", "meson compile -C b", "sdiff a b", "diff3 a b c", "git submodule update", "coredumpctl list", "perf report", "pnpm --filter a test", "jobs", "jobs -l",
    ];
    for line in harmless {
        let opinion = rules.judge("Bash", &json!({ "command": line }), &scope);
        assert_eq!(opinion.map(|opinion| opinion.verdict), Some(Verdict::Allow), "{line}");
    }
}
