//! Commands that run the command which stands in their own words.

use super::invocation;
use crate::shell::variables::{Value, is_harmless};
use crate::shell::{Analysis, DEPTH_MAX, Invocation, Word};

/// Where in a wrapper's words the command begins that it runs. An option that is not listed is a doubt: it may take the next word.
pub(super) struct Wrapper {
    pub name: &'static str,
    /// One-letter options that take a value, in the same word or the next.
    values: &'static str,
    /// Long ones.
    long_values: &'static str,
    /// One-letter options without one, or whose value can only stand in the same word.
    flags: &'static str,
    /// Long ones.
    long_flags: &'static str,
    /// Words of its own that come before the command.
    operands: usize,
    /// Whether it does nothing but run the command.
    transparent: bool,
}

/// A line for each wrapper: its name; letters of options with a value, long ones; letters of those without, long ones; how many words of its
/// own come first; whether it is `plain` and does nothing but run the command, or must be allowed on its `own`, too. One text: a table of
/// pointers would be relocated at every start of the binary.
const WRAPPERS: &str = "\
timeout|ks|kill-after signal|vfp|foreground preserve-status verbose|1|plain
nice|n|adjustment|||0|plain
ionice|cn|class classdata|t|ignore|0|plain
nohup|||||0|plain
setsid|||cfw|ctty fork wait|0|plain
stdbuf|ioe|input output error|||0|plain
command|||pvV||0|plain
builtin|||||0|plain
exec|a||cl||0|plain
jobs|||lnprsx||0|plain
time|fo|format output|pvaq|append verbose portability quiet|0|plain
chronic|||ve||0|plain
taskset|||ac|all-tasks cpu-list|1|plain
chrt|TPD|sched-runtime sched-period sched-deadline|bfiordaRv|batch fifo idle other rr deadline|1|plain
unbuffer|||p||0|plain
catchsegv|||||0|plain
xargs|InPLdEsa|max-args max-procs delimiter arg-file max-chars process-slot-var|0rtpxoile|null no-run-if-empty verbose interactive exit open-tty replace max-lines eof show-limits|0|plain
coproc|||||0|plain
eatmydata|||||0|plain
parallel|jNnIa|jobs arg-file colsep delay timeout|kXm0t||0|own
sudo|ughpCTRDrtU|user group host prompt close-from command-timeout chroot chdir role type other-user|nEHSkbPAisKlvB||0|own
doas|uC||nsL||0|own
runuser|ugGc|user group supp-group command|lmp||0|own
setpriv||reuid regid groups inh-caps ambient-caps bounding-set securebits pdeathsig selinux-label apparmor-profile|||0|own
chroot||groups userspec|||1|own
unshare|SGRw|setuid setgid root wd|mupniUCTfrc||0|own
nsenter|tSG|target setuid setgid|mupniUCTaFZ||0|own
strace|eopsuEaPOSIbX||fFqvtTrciyxkdhwzZCADnN||0|own
ltrace|eopsuaAlnx||fbcCihLrStTV||0|own
flock|wE|timeout conflict-exit-code|sxeunoFv||1|own
watch|nq|interval equexit|bcdegptxwr||0|own
busybox|||||0|own
toybox|||||0|own
systemd-run|pEHM|unit property description slice uid gid nice working-directory setenv service-type|tPqGdr||0|own
systemd-inhibit||what who why mode|||0|own
dbus-run-session||config-file dbus-daemon|||0|own
dbus-launch|||||0|own
xvfb-run|snefpw|server-args server-num error-file auth-file xauth-protocol wait|al||0|own
faketime||date-prog|mf|exclude-monotonic disable-shm|1|own
proot|rbwqik|rootfs bind pwd cwd qemu change-id|0SR||0|own
fakeroot|islb|lib faked|u||0|own
fakechroot|sed||||0|own
bwrap|||||0|own
firejail|||||0|own
prlimit|po|pid output|||0|own
pkexec||user|||0|own
setarch|||BFILRSTXZ3v||1|own
linux64|||BFILRSTXZ3v||0|own
linux32|||BFILRSTXZ3v||0|own
i386|||BFILRSTXZ3v||0|own
x86_64|||BFILRSTXZ3v||0|own
runcon|turl|type user role range|c||1|own
numactl|NCmpwi|cpunodebind physcpubind membind interleave preferred|al||0|own
torsocks|uaP||id||0|own
proxychains|f||q||0|own
proxychains4|f||q||0|own
ssh-agent|aEOPt||csDdk||0|own
rlwrap|CDHPSbflpqst||AacEIiMmNnoRrUWwz||0|own
dumb-init|r|rewrite|cv||0|own
tini|pe||svwgl||0|own
catatonit|||||0|own
gosu|||||1|own
su-exec|||||1|own
setuidgid|||||1|own
envdir|||||1|own
envuidgid|||||1|own
setlock|||nNxX||1|own
softlimit|admcflorst||||0|own
chpst|uUbe/nmdocfpr||vP012L||0|own
cpulimit|lpeP|limit pid exe path|bfkmqrsvzi||0|own
valgrind|||vqdh||0|own
gdbserver|||||1|own
heaptrack|op|output pid|qr||0|own
entr|||acdnprsxz||0|own
capsh|||||0|own
qemu-x86_64|gLsBEdD||||0|own
qemu-x86_64-static|gLsBEdD||||0|own
wine|||||0|own
box64|||||0|own
choom|np|adjust pid|||0|own
uclampset|pmM||asR||0|own
pipesz|sfa|||nioec|0|own
logsave|||asv||1|own
debconf|fpo|frontend priority owner|||0|own
coresched|tdm||v||0|own
uname26|||BFILRSTXZ3v||0|own
trickle|||||0|own
cset|||||0|own
";

/// The wrapper of this name.
pub(super) fn named(name: &str) -> Option<Wrapper> {
    WRAPPERS.lines().find_map(|line| {
        let mut parts = line.split('|');
        let known = parts.next().filter(|known| *known == name)?;
        Some(Wrapper {
            name: known,
            values: parts.next()?,
            long_values: parts.next()?,
            flags: parts.next()?,
            long_flags: parts.next()?,
            operands: parts.next()?.parse().ok()?,
            transparent: parts.next()? == "plain",
        })
    })
}

/// What an option does with the words after it.
enum Takes {
    Nothing,
    Next,
    Unknown,
}

impl Wrapper {
    fn takes(&self, text: &str) -> Takes {
        if let Some(long) = text.strip_prefix("--") {
            // Long options may be abbreviated.
            let key = long.split('=').next().unwrap_or(long);
            let begins = |known: &str| known.starts_with(key);
            return match (self.long_values.split_whitespace().any(begins), long.contains('=')) {
                (true, false) => Takes::Next,
                (true, true) => Takes::Nothing,
                (false, _) if self.long_flags.split_whitespace().any(begins) => Takes::Nothing,
                (false, _) if matches!(key, "help" | "version") => Takes::Nothing,
                _ => Takes::Unknown,
            };
        }
        let cluster = text.trim_start_matches('-');
        if cluster.chars().all(|c| c.is_ascii_digit()) {
            return Takes::Nothing;
        }
        for (at, letter) in cluster.char_indices() {
            if self.values.contains(letter) {
                let is_last = at + letter.len_utf8() == cluster.len();
                return if is_last { Takes::Next } else { Takes::Nothing };
            }
            // These take the rest of their word.
            if self.name == "xargs" && matches!(letter, 'i' | 'l' | 'e') {
                return Takes::Nothing;
            }
            if !self.flags.contains(letter) {
                return Takes::Unknown;
            }
        }
        Takes::Nothing
    }

    /// The words behind its own options and operands.
    fn behind<'a>(&self, rest: &'a [Word], analysis: &mut Analysis) -> &'a [Word] {
        let mut at = 0;
        let mut operands = self.operands;
        while let Some(word) = rest.get(at) {
            if !word.exact && (word.maybe_option || operands == 0) {
                analysis
                    .doubts
                    .push(format!("what {} runs is not known before it runs", self.name));
                return &[];
            }
            let text = word.text.as_str();
            if text == "--" {
                at += 1;
                return rest.get(at + operands..).unwrap_or_default();
            }
            at += 1;
            if text.starts_with('-') && text.len() > 1 {
                match self.takes(text) {
                    Takes::Nothing => {}
                    Takes::Next => at += 1,
                    Takes::Unknown => analysis.doubts.push(format!(
                        "what {} runs cannot be told, with its option {text}",
                        self.name
                    )),
                }
                continue;
            }
            // sudo and its like set variables there.
            if !self.transparent && text.contains('=') && !text.starts_with('=') {
                analysis.doubts.push(format!("{} sets {text}", self.name));
                continue;
            }
            if operands == 0 {
                at -= 1;
                break;
            }
            operands -= 1;
        }
        rest.get(at..).unwrap_or_default()
    }
}

pub(super) fn wrapped(
    wrapper: &Wrapper,
    mut found: Invocation,
    rest: &[Word],
    depth: usize,
    analysis: &mut Analysis,
) {
    let mut inner = wrapper.behind(rest, analysis).to_vec();
    let name = wrapper.name;
    let own: Vec<&str> =
        rest.iter().take(rest.len() - inner.len()).map(|word| word.text.as_str()).collect();
    // `command -v`, `command -V`: only a question.
    let asks = name == "command" && own.iter().any(|word| matches!(*word, "-v" | "-V"));
    let writes = matches!(name, "time" | "strace" | "ltrace")
        && own.iter().any(|word| word.starts_with("-o") || word.starts_with("--o"));
    if writes {
        analysis.doubts.push(format!("{name} writes a file"));
    }
    if name == "stdbuf" && inner.is_empty() && !rest.is_empty() {
        analysis.doubts.push("what stdbuf runs is not known".into());
    }
    // Without one of these the first word is the command.
    let named =
        |word: &&str| ["x86_64", "i386", "i686", "linux64", "linux32", "aarch64"].contains(word);
    if name == "setarch" && !own.iter().any(named) {
        analysis.doubts.push("what setarch runs cannot be told".into());
    }
    // Without `-x` its words name jobs.
    if name == "jobs" && !own.iter().any(|word| word.starts_with('-') && word.contains('x')) {
        inner.clear();
    }
    if name == "xargs" {
        from_input(&own, &mut inner, analysis);
    }
    let to_a_shell = matches!(name, "watch" | "parallel" | "capsh")
        || (matches!(name, "flock" | "runuser" | "entr")
            && rest.iter().any(|word| matches!(word.text.as_str(), "-c" | "--command" | "-s")));
    if to_a_shell {
        analysis.doubts.push(format!("{name} gives its words to a shell"));
    }
    found.transparent = (wrapper.transparent && !inner.is_empty() && !writes) || asks;
    // `exec >file` and `nohup` alone run nothing.
    if name == "exec" && inner.is_empty() && rest.is_empty() {
        found.transparent = true;
    }
    analysis.commands.push(found);
    if !asks && !inner.is_empty() {
        if depth > DEPTH_MAX {
            analysis.doubts.push("commands lie too deep in each other".into());
            return;
        }
        invocation(Invocation { words: inner, transparent: false }, depth + 1, analysis);
    }
}

/// `xargs` puts into its command's words whatever comes in: behind them, or with `-I` anywhere.
fn from_input(own: &[&str], inner: &mut Vec<Word>, analysis: &mut Analysis) {
    let from_file = |word: &&str| {
        (word.starts_with('-') && !word.starts_with("--") && word.contains('a'))
            || word.starts_with("--a")
            || word.starts_with("--pr")
    };
    if own.iter().any(from_file) {
        analysis.doubts.push("xargs reads its words from a file".into());
    }
    if inner.is_empty() {
        return;
    }
    let replace = own.iter().position(|word| {
        word.starts_with("--r") && !word.starts_with("--n")
            || (word.starts_with('-') && !word.starts_with("--") && word.contains(['I', 'i']))
    });
    let Some(at) = replace else {
        inner.push(Word { splits: true, ..Word::unknown("…") });
        return;
    };
    let word = own.get(at).copied().unwrap_or_default();
    let attached = match word.strip_prefix("--") {
        Some(long) => long.split_once('=').map_or("", |(_, mark)| mark),
        None => word.split_once(['I', 'i']).map_or("", |(_, mark)| mark),
    };
    let needs_value = !word.starts_with("--") && word.contains('I') && attached.is_empty();
    let mark = if needs_value { own.get(at + 1).copied().unwrap_or("{}") } else { attached };
    let mark = if mark.is_empty() { "{}" } else { mark };
    for word in inner {
        if word.text.contains(mark) {
            word.exact = false;
            word.maybe_option |= word.text.starts_with(mark);
            word.text = word.text.replace(mark, "…");
        }
    }
}

/// `env` sets variables, and runs the rest.
pub(super) fn env(mut found: Invocation, rest: &[Word], depth: usize, analysis: &mut Analysis) {
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let text = word.text.as_str();
        if !word.exact && word.maybe_option {
            analysis.doubts.push("what env runs is not known before it runs".into());
            break;
        }
        match text {
            "-i" | "-" | "--ignore-environment" | "-0" | "--null" => {}
            "-u" | "--unset" | "-C" | "--chdir" => at += 1,
            "--" => {
                at += 1;
                break;
            }
            _ if text.starts_with('-') => {
                analysis.doubts.push(format!("env {text} is not looked into"));
            }
            _ if text.contains('=') => {
                let (name, value) = text.split_once('=').unwrap_or_default();
                let value = Word { text: value.to_owned(), ..word.clone() };
                analysis.variables.given(name, &value.text);
                analysis.variables.set(name, Value::of(&value));
                if !is_harmless(name) {
                    analysis
                        .doubts
                        .push(format!("the variable {name} may change what the command does"));
                }
            }
            _ => break,
        }
        at += 1;
    }
    let inner = rest.get(at..).unwrap_or_default().to_vec();
    // A plain assignment that a prefix may make is no doubt here either.
    if !inner.is_empty() {
        found.transparent = true;
    }
    analysis.commands.push(found);
    if !inner.is_empty() {
        invocation(Invocation { words: inner, transparent: false }, depth + 1, analysis);
    }
}
