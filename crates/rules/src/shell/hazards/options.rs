//! Options by which a command writes a file or runs another one.

use super::{Hazard, changes, runs};
use crate::shell::{Word, class_of, is_compiler};

struct Tool {
    /// What runs code that stands in the line.
    runs: Flags,
    /// What writes, or runs what lies in a file.
    changes: Flags,
}

struct Flags {
    /// One-letter options, also in a cluster (`-ni`).
    short: &'static str,
    /// Long options; abbreviations count.
    long: &'static str,
    /// Words that count as they are, or up to their `=`; those in capitals at a word's beginning, whatever its case.
    words: &'static str,
}

/// A line for each kind of program: its names, then the letters, long options and words that run something, then those that change
/// something. One text, read where it is needed: a table of pointers would be relocated at every start of the binary.
const TOOLS: &str = "\
sed gsed||||if|in-place file|
find||||||-delete -fprint -fprint0 -fprintf -fls
fd fdfind|xX|exec exec-batch||||
sdiff diff||diff-program||o|output|
sort||compress-program||oT|output temporary-directory|
rg ripgrep||pre hostname-bin||||
ag ack bat delta||pager||||
tar bsdtar gtar|IF|to-command checkpoint-action use-compress-program rsh-command info-script new-volume-script rmt-command||||
awk gawk mawk nawk|e|source||fiElpodD|file include exec load profile pretty-print dump-variables debug|
python pypy|ci|||m||
perl|eEMm|||inpIx||
ruby|e|||inprIx||
node nodejs deno bun|epr|eval print require import loader experimental-loader||c||
php|rBREd|run||z||
lua luajit|e|||l||
vim vi nvim view ex vimdiff|ceE|cmd||SsuUW|startuptime|
emacs emacsclient|f|eval execute funcall||l|load script|
less more most||cmd lesskey-content||oOkT|log-file LOG-FILE lesskey-file|
man|PH|pager html||CM|config-file preprocessor|
curl||||oOTKDcJd|output remote-name upload-file config dump-header cookie-jar trace trace-ascii stderr data data-binary form output-dir engine libcurl etag-save hsts alt-svc|
wget|e|execute use-askpass||OoaPi|output-document output-file append-output directory-prefix post-file body-file input-file config warc-file save-cookies|
rsync|e|rsh rsync-path|||log-file remove-source-files delete|
scp sftp|SoD|||Fb||
zip|T|unzip-command|-TT|mO|test move output-file|
split||filter||||
shuf||||o|output|
tree||||o||
file||||Cm|compile magic-file|
date||||s|set|
make gmake|E|eval||fCIj|file makefile directory include-dir environment-overrides|
npm pnpm yarn npx|c|script-shell node-options call shell editor viewer browser git||C|prefix userconfig globalconfig cwd use-yarnrc|
cargo||config||ZC|manifest-path|
go|||-exec -toolexec -vettool --exec --toolexec --vettool|o||-overlay -modfile -C --overlay --modfile
pytest py.test||override-ini||pco|rootdir confcutdir basetemp junitxml debugger pdbcls import-mode|
jest vitest mocha||||cr|config require globalSetup setupFiles rootDir|
tsc eslint prettier||||co|config plugin rulesdir resolve-plugins-relative-to output-file fix write parser plugin-search-dir|
yq||||i|inplace in-place|
fzf||preview bind|||history|
nc ncat netcat socat|ec|exec sh-exec lua-exec|EXEC SYSTEM|||
openssl||||||-engine -provider -provider-path -out -writerand -config
gdb lldb|eo|eval-command ex one-line one-line-before-file|-ex -iex|xs|command source|-ix
sqlite|||-cmd|||-init -A
psql|c|command||foL|file output log-file|
mysql mariadb|e|execute pager|||tee|
apt apt-get|o|option||c|config-file|
pip||||rcei|requirement index-url extra-index-url editable target prefix root log|
gcc||wrapper|-wrapper|oBT|specs plugin|-specs -fplugin
ps pgrep lsof ss||||D||
printf||||v||
hostname||||bF|boot file|
xxd||||r|revert|
history||||warnc||
install ginstall||strip-program||||
dc|e|expression||f|file|
gnuplot|e|||||
R Rscript julia octave guile racket sbcl clojure elixir erl ghc scala groovy raku tclsh iex swift crystal nim|eEcr|eval load expr no-halt|-eval -run -s -c -e|lf|file|
pwsh powershell nu osascript xonsh elvish|cCeE|command commands execute|-Command -EncodedCommand|f|file|-File
rpm rpmbuild|E|eval define pipe||||
dpkg||pre-invoke post-invoke status-logger||||
tcpdump|z|postrotate-command||wF||
tshark wireshark|X|||w||
nmap||script interactive||o||
hg svn bzr||using config config-option diff-cmd diff3-cmd editor-cmd ssh remotecmd tool|||cwd repository|
pdftex tex latex pdflatex xelatex lualatex||shell-escape enable-write18 output-directory|-shell-escape -enable-write18|||
msgfmt msgexec msgfilter||||o|output-file|
journalctl systemctl loginctl||||HM|host machine|
mail mailx mutt sendmail exim|eSI|||||
start-stop-daemon|axS|exec startas start||||
run-parts||||a|arg|
ncdu||||o||
mplayer mpv||script input-ipc-server|-script|||
ansible ansible-playbook|ame|args module-name extra-vars||||
cmake|E|||DP|build install|
rustc|||LINKER=|oC|out-dir emit codegen|
ld||plugin|-plugin|o|output|
rake|eEpg|execute execute-print execute-continue system||fCIrRtT|rakefile libdir require rakelibdir|
gs gsx gsnd ghostscript|c||-sOutputFile -sDEVICE -dNOSAFER|of|file|
jshell|R||-|CJsv|startup class-path module-path add-exports execution|
bazel bazelisk||run_under||||
helm||post-renderer||||
pandoc|F|filter pdf-engine||o|output lua-filter|
cpio||rsh-command||F|file|
ssh-copy-id|o|||F||
pylint||init-hook||||
lftp|ce|||f||
smbclient|c|command||||
debugfs|R|||f||
gpg gpgsm gpg-agent||photo-viewer agent-program dirmngr-program keyboxd-program pinentry-program exec-path||o|output|
coredumpctl|A|debugger debugger-arguments||o|output|
perf||objdump addr2line||o|output|
meson||wrapper gdb-path||||
ctest||test-command build-makeprogram||||
mdadm||program alert||||
tox|x|override|||ce|conf workdir root|
";

impl Tool {
    fn named(name: &str) -> Option<Self> {
        let is_named = |line: &&str| {
            line.split('|').next().is_some_and(|names| names.split(' ').any(|known| known == name))
        };
        let mut parts = TOOLS.lines().find(is_named)?.split('|').skip(1);
        let mut flags =
            || Some(Flags { short: parts.next()?, long: parts.next()?, words: parts.next()? });
        Some(Self { runs: flags()?, changes: flags()? })
    }
}

pub(super) fn hazards(name: &str, rest: &[Word]) -> Vec<Hazard> {
    let mut found = Vec::new();
    let class = if is_compiler(name) { "gcc" } else { class_of(name) };
    let Some(tool) = Tool::named(name).or_else(|| Tool::named(class)) else {
        return found;
    };
    for (place, word) in rest.iter().enumerate() {
        let text = word.text.as_str();
        if text == "--" && word.exact && !matches!(name, "npm" | "pnpm" | "yarn" | "cargo") {
            break;
        }
        if !word.exact && word.maybe_option {
            let reason =
                format!("{text:?} may become an option of {name} that writes, or runs something");
            // Only where there is an option that runs something.
            let can_run = !(tool.runs.short.is_empty() && tool.runs.long.is_empty());
            found.push(if can_run { runs(place, reason) } else { changes(place, reason) });
        } else if tool.runs.has(text) {
            found.push(runs(place, format!("{name} {text} may run something")));
        } else if tool.changes.has(text) {
            found.push(changes(place, format!("{name} {text} may write a file, or run something")));
        }
    }
    found
}

impl Flags {
    fn has(&self, text: &str) -> bool {
        let key = text.split('=').next().unwrap_or(text);
        if self.words.split_whitespace().any(|word| {
            key == word || (!word.starts_with('-') && text.to_uppercase().starts_with(word))
        }) {
            return true;
        }
        if let Some(long) = text.strip_prefix("--") {
            let long = long.split('=').next().unwrap_or(long);
            return !long.is_empty()
                && self.long.split_whitespace().any(|known| known.starts_with(long));
        }
        match text.strip_prefix('-') {
            // find and go have long options with one dash; their letters are no cluster.
            Some(cluster) => {
                !cluster.is_empty() && cluster.chars().any(|letter| self.short.contains(letter))
            }
            None => false,
        }
    }
}
