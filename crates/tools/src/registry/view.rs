use super::RegisteredTool;
use std::sync::Arc;

/// How a scope's model is offered its tools (spec 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presentation {
    /// Each by itself.
    #[default]
    Native,
    /// As functions of the program that `run_code` runs, and in no other way.
    Code,
    /// Both.
    Both,
}

/// What a model is offered.
pub struct View {
    /// The tools that it may call itself, by name; `run_code` last.
    pub direct: Vec<Arc<RegisteredTool>>,
    /// The tools that a program of its may call, by name.
    pub in_code: Vec<Arc<RegisteredTool>>,
}

/// A view that cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// Nothing serves `run_code`.
    #[error(
        "this scope is presented as {0:?}, which needs run_code, and nothing here serves it: install it with provide_run_code, or present the scope as Native"
    )]
    NoRunCode(Presentation),
}

impl View {
    pub(super) fn resolve(
        presentation: Presentation,
        tools: Vec<Arc<RegisteredTool>>,
        run_code: Option<Arc<RegisteredTool>>,
    ) -> Result<Self, ViewError> {
        let run_code = || run_code.clone().ok_or(ViewError::NoRunCode(presentation));
        Ok(match presentation {
            Presentation::Native => Self { direct: tools, in_code: Vec::new() },
            Presentation::Code => Self { direct: vec![run_code()?], in_code: tools },
            Presentation::Both => {
                let mut direct = tools.clone();
                direct.push(run_code()?);
                Self { direct, in_code: tools }
            }
        })
    }
}
