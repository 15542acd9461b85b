//! What a row of a family's table is.

/// One way out of a sandbox.
pub struct Technique {
    /// Unique, and stable: reports and the threat model name it.
    pub id: &'static str,
    /// What is done, in a few words.
    pub what: &'static str,
    /// Where it comes from: a CVE, a manual page, a published escape.
    pub source: &'static str,
    /// What the attacker runs.
    pub attack: Attack,
    /// What shows, from outside, that it worked.
    pub proof: Proof,
    /// Who can do it without any sandbox.
    pub by: By,
    /// Options of `stockade run`, with places filled in as in the attack.
    pub options: &'static [&'static str],
    /// The layer without which it is not stopped: where namespaces are forbidden, a policy that does not give that layer up is
    /// refused.
    pub takes: Option<&'static str>,
}

/// The attacker's program. `{outside}`, `{victim}` and so on are filled in by the scene, see there.
#[derive(Clone, Copy)]
pub enum Attack {
    /// Lines of bash.
    Sh(&'static str),
    /// Python, after a prelude that has `call(NAME, …)`, which is a system call or an `OSError`, and `reached(NAME, …)`, which says
    /// `REACHED` when the kernel looked at it at all.
    Py(&'static str),
}

/// What shows that an attack worked. Whatever it is, the judge looks for all the others' harm as well.
#[derive(Clone, Copy)]
pub enum Proof {
    /// A secret of the fake host is in its output.
    Reads,
    /// A file of the fake host has changed.
    Changes,
    /// A listener of the fake host has received the word `exfil`.
    Heard,
    /// The victim, another program of the host, was ended or stopped.
    Hurts,
    /// A process of the attack is alive after its end.
    Outlives,
    /// It says `REACHED`: it came to something that only itself can see.
    Says,
    /// A person on the host who then runs this line in the workspace sets off a trap, which would have run whatever the attacker
    /// likes, outside.
    Springs(&'static str),
    /// This path of the workspace exists, with the word `evil` in it.
    Plants(&'static str),
}

/// Who can do it without any sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    Anyone,
    Root,
    /// Anyone but root, who has what it would gain already.
    Ordinary,
}

const fn new(
    id: &'static str,
    what: &'static str,
    source: &'static str,
    attack: Attack,
    proof: Proof,
) -> Technique {
    Technique { id, what, source, attack, proof, by: By::Anyone, options: &[], takes: None }
}

/// Done by a line of bash.
pub const fn sh(
    id: &'static str,
    what: &'static str,
    source: &'static str,
    line: &'static str,
    proof: Proof,
) -> Technique {
    new(id, what, source, Attack::Sh(line), proof)
}

/// Done by a program in Python.
pub const fn py(
    id: &'static str,
    what: &'static str,
    source: &'static str,
    program: &'static str,
    proof: Proof,
) -> Technique {
    new(id, what, source, Attack::Py(program), proof)
}

impl Technique {
    /// Without a sandbox, root alone can do it.
    pub const fn root(mut self) -> Self {
        self.by = By::Root;
        self
    }

    /// It gains an ordinary user something that root has.
    pub const fn ordinary(mut self) -> Self {
        self.by = By::Ordinary;
        self
    }

    /// Nothing but this layer stops it.
    pub const fn takes(mut self, layer: &'static str) -> Self {
        self.takes = Some(layer);
        self
    }

    /// `stockade run` gets these options as well.
    pub const fn with(mut self, options: &'static [&'static str]) -> Self {
        self.options = options;
        self
    }
}
