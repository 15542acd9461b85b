//! The shell parser against bash itself: a marker is hidden in constructs within constructs, bash runs the line, and whenever the
//! marker's command ran the analysis must have found it, or have a doubt (spec 2.5).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stockade_rules::shell::analyze;

/// `@` is a line that runs the marker, `Q` the same line as one quoted word.
#[rustfmt::skip]
const AROUND: &[&str] = &[
    "true; @", "true && @", "false || @", "true | @", "@ | true", "(@)", "{ @; }", "! @", "if true; then @; fi", "if @; then :; fi", "if false; then :; else @; fi", "while @; do break; done", "until ! @; do break; done",
    "for i in a; do @; done", "for i in $(@); do :; done", "case x in x) @;; esac", "case $(@) in *) :;; esac", "case a in $(@)*) :;; esac", "f() { @; }; f", "f() ( @ ); f", "function g { @; }; g", "echo $(@)", "echo \"$(@)\"", "echo \"a $(@) b\"", "v=$(@)", "v=$(@) true", "v=(a $(@))", "v+=($(@))",
    "declare -A m=([k]=$(@))", "echo ${y:-$(@)}", "echo \"${y:=$(@)}\"", "echo ${HOME:+$(@)}", "echo ${HOME/a/$(@)}", "echo \"${HOME//\\//$(@)}\"", "echo ${HOME#$(@)}", "echo \"${y:-\"$(@)\"}\"", "echo $(( $(@; echo 1) ))", "echo $[ $(@; echo 1) ]", "((z=$(@; echo 1)))", "let \"z=$(@; echo 1)\"", "cat <<E\n$(@)\nE", "cat <<-E\n\t$(@)\n\tE",
    "cat <<< $(@)", "cat <<< \"$(@)\"", "cat <(@)", "echo a > >(@)", "eval Q", "eval \"\" Q", "bash -c Q", "sh -c Q", "trap Q EXIT", "env bash -c Q", "env A=1 bash -c Q", "timeout 5 bash -c Q", "nice bash -c Q", "echo a | xargs -I{} bash -c Q", "echo a | xargs bash -c Q", "[[ -n $(@) ]]", "[[ a == $(@) ]]", "[[ ! ( -n $(@) ) ]]",
    "test -n \"$(@)\"", "[ a = \"$(@)\" ]", "declare d=$(@)", "export d=\"$(@)\"", "printf -v v %s \"$(@)\"", "echo {a,$(@)}", "echo $'a' $(@)", "time @", "echo a # c\n@", "echo a \\\n; @", "w=(1 2); echo ${w[$(@; echo 0)]}", "w=(1 2); echo ${w[@]:$(@; echo 0)}", "for ((i=$(@; echo 0);i<1;i++)); do :; done", "w[$(@; echo 0)]=1", "((w[$(@; echo 0)]++))",
    "find . -maxdepth 0 -exec bash -c Q \\;", "echo \"$(echo \"$(@)\")\"", "echo a 2>&1 | { @; }", "{ echo a; @; } > /dev/null", "coproc { @; }; wait", "a=Q; eval \"$a\"", "set -- Q; eval \"$1\"", "select x in a; do @; break; done <<< 1", "exec 3< <(@); cat <&3", "true >&2; @", "echo a;\n\n@", "if [[ a ]]; then (@); fi", "command bash -c Q", "exec bash -c Q", "bash -ec Q", "bash -o errexit -c Q", "bash <<< Q", "printf '%s' Q | bash",
    "v='w[$(@)]'; echo $((v))", "v='w[$(@)]'; ((v))", "v='w[$(@)]'; [[ v -eq 0 ]]", "v='w[$(@)]'; let v", "v='w[$(@)]'; w=1; echo ${w[v]}", "v='w[$(@)]'; echo ${HOME:v}", "read v <<< 'w[$(@)]'; echo $((v))", "printf -v v %s 'w[$(@)]'; echo $((v))", "for v in 'w[$(@)]'; do echo $((v)); done", "set -- 'w[$(@)]'; echo $(($1))", "v='$(@)'; echo \"${v@P}\"", "test -v 'w[$(@)]'", "[[ -v 'w[$(@)]' ]]", "declare -i v='w[$(@)]'", "unset 'w[$(@)]'", "PS4='$(@)'; set -x; :", "a='w[$'; b='(@)]'; c=$a$b; echo $((c))", "f() { echo $(($1)); }; f 'w[$(@)]'", "bash -c -- Q", "bash -c -x Q", "bash -Oc extglob Q", "bash -co errexit Q", "bash +x <<< Q", "bash -o posix <<< Q", "bash /dev//stdin <<< Q", "bash <(echo Q)", "eval -- Q", "trap -- Q EXIT", "time -- bash -c Q", "( ( @ ) )", "((@) )",
    "read <<< 'w[$(@)]'; ((REPLY))", ": 'w[$(@)]'; ((_))", "declare -i v; v='w[$(@)]'", "f() { local -i v; v='w[$(@)]'; }; f", "v='w[$(@)]'; test -v \"$v\"", "v='w[$(@)]'; [[ -v $v ]]", "v='w[$(@)]'; printf -v \"$v\" a", "f() { getopts a: o; ((OPTARG)); }; f -a 'w[$(@)]'", "RANDOM='w[$(@)]'", "read -az <<< 'w[$(@)]'; ((z))", "v='w[$(@)]'; z=v; ((z))", "cat > s <<< Q; . ./s", "f() { [ \"$1\" \"$2\" ]; }; f -v 'w[$(@)]'",
    "v='w[$(@)]'; w[v]=1", "v='w[$(@)]'; for ((;v;)); do break; done",
];
#[rustfmt::skip]
const MARKERS: &[&str] = &["rm x", "\\rm x", "r\"\"m x", "command rm x", "env rm x", "timeout 5 rm x", "nice -n 1 rm x", "X=1 rm x", "rm x >/dev/null", "</dev/null rm x", "exec rm x", "exec -a a rm x", "$(echo rm) x", "true;rm x", "echo a | xargs rm", "r\\\nm x", "busy=rm; $busy x"];

struct Bash {
    folder: tempfile::TempDir,
    ran: PathBuf,
}

impl Bash {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let ran = folder.path().join("ran");
        let stub = bin.join("rm");
        fs::write(&stub, format!("#!/bin/sh\necho >> '{}'\n", ran.display())).unwrap();
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["bash", "sh", "cat", "env", "timeout", "nice", "xargs", "find"] {
            let real = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
            let real = real
                .iter()
                .find(|path| path.exists())
                .unwrap_or_else(|| panic!("{name} is needed"));
            symlink(real, bin.join(name)).unwrap();
        }
        Self { folder, ran }
    }

    /// Whether the line runs the marker. It has a home and a folder of its own, and no other programs than those above.
    fn runs_marker(&self, line: &str) -> bool {
        fs::remove_file(&self.ran).ok();
        let work = self.folder.path().join("work");
        let mut child = Command::new("bash")
            .args(["-c", line])
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("HOME", &work)
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > Duration::from_secs(10) {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        // What a process substitution runs may end a moment after bash.
        if !self.ran.exists() && line.contains(['<', '>', '&']) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.ran.exists()
    }
}

fn filled(template: &str, inner: &str) -> String {
    let quoted = format!("'{}'", inner.replace('\'', "'\\''"));
    template.replace('Q', &quoted).replace('@', inner)
}

fn is_seen(line: &str) -> bool {
    let analysis = analyze(line);
    !analysis.doubts.is_empty() || analysis.commands.iter().any(|command| command.name() == "rm")
}

// spec 2.5
#[test]
fn whatever_bash_runs_is_found_or_doubted() {
    let bash = Bash::new();
    let mut lines: Vec<String> = Vec::new();
    for template in AROUND {
        lines.push(filled(template, "rm x"));
    }
    for marker in MARKERS {
        lines.push((*marker).to_owned());
        lines.push(filled("echo \"$(@)\"", marker));
    }
    // A plain generator: the same lines in every run.
    let mut random: u64 = 20_261_130;
    let mut pick = |among: &[&'static str]| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        among[(random >> 33) as usize % among.len()]
    };
    let more = std::env::var("STOCKADE_LINES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    for round in 0..more {
        let mut line = pick(MARKERS).to_owned();
        for _ in 0..2 + round % 2 {
            line = filled(pick(AROUND), &line);
        }
        lines.push(line);
    }
    let ran: Vec<&String> = lines.iter().filter(|line| bash.runs_marker(line)).collect();
    assert!(ran.len() * 2 > lines.len(), "{} of {} run at all", ran.len(), lines.len());
    let missed: Vec<&&String> = ran.iter().filter(|line| !is_seen(line)).collect();
    assert!(missed.is_empty(), "{} of {}: {missed:#?}", missed.len(), ran.len());
}
