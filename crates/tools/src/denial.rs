use stockade_types::{Denial, DenialKind, Evidence, visible};

/// One line that names what was refused, for the model (spec 5.9).
pub fn describe_denial(denial: &Denial) -> String {
    let kind = match denial.kind {
        DenialKind::Read => "reading",
        DenialKind::Write => "writing",
        DenialKind::Network => "network access to",
        DenialKind::Syscall => "system call",
    };
    let sure = match denial.evidence {
        Evidence::Kernel => "reported by the kernel",
        Evidence::Observed => "observed",
        Evidence::Inferred => "inferred",
    };
    // A grant is never named to the model on the word of a command's own output, which can be forged.
    let grant = match denial.grant.as_str() {
        _ if denial.evidence < Evidence::Observed => String::new(),
        "" => String::new(),
        grant => format!("; {} would allow it", visible(grant)),
    };
    let note = match denial.note.as_str() {
        "" => String::new(),
        note => format!("; {}", visible(note)),
    };
    format!("[the sandbox refused {kind} {} ({sure}){note}{grant}]", visible(&denial.target))
}
