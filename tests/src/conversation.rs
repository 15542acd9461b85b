use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A session of `stockade exec` that is given one call after the other: the test does something outside between two.
pub struct Conversation {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Conversation {
    /// Starts it, with a command such as [`crate::turn::exec_command`].
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("stockade starts");
        let stdin = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, stdin, lines }
    }

    /// The line that answers a call.
    pub fn call(&mut self, id: &str, name: &str, input: &Value) -> String {
        let line = json!({"type": "tool_use", "id": id, "name": name, "input": input});
        writeln!(self.stdin, "{line}").expect("it reads");
        let mut answers = self.lines.by_ref().map(|line| line.expect("text"));
        answers.find(|line| line.contains(id)).expect("an answer")
    }

    /// The same of a command line.
    pub fn bash(&mut self, id: &str, line: &str) -> String {
        self.call(id, "Bash", &json!({"command": line}))
    }

    /// Ends the session, and waits for it.
    pub fn end(mut self) {
        drop(self.stdin);
        self.child.wait().expect("its end");
    }
}
