//! What a command is given: its environment and its stdin (spec 5.6, 6.3).

use crate::case::Case;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;
use stockade_tests::procs;

crate::cases!(
    of_the_environment_only_what_the_policy_keeps_is_given,
    a_secret_is_not_given_whatever_name_it_has,
    what_the_loader_would_obey_is_not_given,
    what_is_asked_for_by_name_is_given,
    stdin_is_the_callers_own,
    what_nobody_reads_of_stdin_hangs_nothing,
    ten_megabytes_come_through_stdin_whole,
    a_closed_stdin_is_an_empty_one,
    a_tool_call_has_an_empty_stdin,
);

fn environment(case: &Case, options: &[&str], given: &[(&str, &str)]) -> String {
    let mut command = case.run(options, "env -0 | tr '\\0' '\\n'");
    let output = command.envs(given.iter().copied()).output().expect("stockade runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn of_the_environment_only_what_the_policy_keeps_is_given(case: Case) {
    let seen = environment(&case, &[], &[("STOCKADE_TEST_OTHER", "here"), ("LANG", "C.UTF-8")]);
    assert!(!seen.contains("STOCKADE_TEST_OTHER"), "{seen}");
    assert!(seen.lines().any(|line| line == "LANG=C.UTF-8"), "{seen}");
    assert!(seen.lines().any(|line| line.starts_with("PATH=")), "{seen}");
}

fn a_secret_is_not_given_whatever_name_it_has(case: Case) {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let seen = environment(
        &case,
        &[],
        &[("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI"), ("LC_TOKEN", "abc"), ("LC_TIME", &token)],
    );
    assert!(!seen.contains("wJalr") && !seen.contains("LC_TOKEN"), "by its name: {seen}");
    assert!(!seen.contains(&token), "by its shape: {seen}");
}

fn what_the_loader_would_obey_is_not_given(case: Case) {
    let file = case.work().join("init");
    std::fs::write(&file, "echo the file ran\n").expect("a file");
    let file = file.display().to_string();
    let given = [("BASH_ENV", file.as_str()), ("ENV", &file), ("PYTHONSTARTUP", &file)];
    let seen = environment(&case, &[], &given);
    assert!(!seen.contains("the file ran") && !seen.contains(&file), "{seen}");
    let seen = environment(&case, &[], &[("LD_LIBRARY_PATH", "/x"), ("GLIBC_TUNABLES", "a.b=c")]);
    assert!(!seen.contains("LD_LIBRARY_PATH") && !seen.contains("GLIBC_TUNABLES"), "{seen}");
}

fn what_is_asked_for_by_name_is_given(case: Case) {
    let options = ["--env", "STOCKADE_TEST_OTHER", "--env", "STOCKADE_TEST_NEW=a=b c"];
    let seen = environment(&case, &options, &[("STOCKADE_TEST_OTHER", "here")]);
    assert!(seen.lines().any(|line| line == "STOCKADE_TEST_OTHER=here"), "{seen}");
    assert!(seen.lines().any(|line| line == "STOCKADE_TEST_NEW=a=b c"), "{seen}");
}

fn stdin_is_the_callers_own(case: Case) {
    let bytes: Vec<u8> = (0..=255).collect();
    let report = case.report_of(&[], "od -An -v -tu1 | tr -s ' \\n' ' '", &bytes);
    let expected: Vec<String> = bytes.iter().map(u8::to_string).collect();
    assert_eq!(report.stdout.trim(), expected.join(" "));
}

fn what_nobody_reads_of_stdin_hangs_nothing(case: Case) {
    let mut child = case
        .run(&[], "echo done")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("stockade starts");
    // More than a pipe holds, and it stays open.
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&vec![b'x'; 1 << 20]);
        stdin
    });
    let status = procs::until(Duration::from_secs(60), || child.try_wait().expect("a child"));
    assert_eq!(status.and_then(|status| status.code()), Some(0));
    let mut said = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    assert_eq!(said, "done\n");
    drop(writer.join());
    case.nothing_is_left();
}

fn ten_megabytes_come_through_stdin_whole(case: Case) {
    let bytes = vec![b'y'; 10 << 20];
    let report = case.report_of(&[], "wc -c", &bytes);
    assert_eq!(report.stdout.trim(), "10485760");
}

fn a_closed_stdin_is_an_empty_one(case: Case) {
    let run = case.argv(&["run", "--", "bash", "-c", "cat; echo over"]);
    let output = std::process::Command::new("sh")
        .args(["-c", "exec \"$@\" <&-", "sh"])
        .args(run)
        .current_dir(case.work())
        .output()
        .expect("sh runs");
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()),
        (Some(0), "over\n"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn a_tool_call_has_an_empty_stdin(case: Case) {
    let call = "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"Bash\",\"input\":{\"command\":\"cat; echo over\"}}\n";
    let state = case.state().display().to_string();
    let mut child = case
        .stockade(&["exec", "--state-dir", &state])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("stockade starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(call.as_bytes()).expect("it reads");
    // What follows on exec's own stdin is its, not the command's.
    stdin.write_all(b"\n").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.contains("\"over\""), "{answer}");
    case.nothing_is_left();
}
