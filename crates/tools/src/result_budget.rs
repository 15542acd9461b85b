/// What the model may be given of one result (spec 8.1, 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultBudget {
    /// Text of at most so many bytes stays in the result.
    pub max_inline_bytes: usize,
    /// The model is given at most so many bytes of text: the content, or the mark or envelope in its place, and all that hooks and the
    /// tool add beside it. The smaller of the two counts for the content.
    pub max_model_bytes: usize,
    /// What becomes of a result that is larger.
    pub strategy: Strategy,
    /// Which part of it the model is shown.
    pub preview: Preview,
}

/// What becomes of a result over its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All of it is kept in the spill store; the model gets its size, its place and a preview.
    Artifact,
    /// It is cut.
    Truncate,
}

/// Which part of a result over its budget is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preview {
    /// Its beginning.
    Head,
    /// Its end.
    Tail,
    /// Both, half each.
    HeadAndTail,
}

impl ResultBudget {
    /// The smaller of the two bounds, in bytes.
    pub fn bytes(&self) -> usize {
        self.max_inline_bytes.min(self.max_model_bytes)
    }
}

impl Default for ResultBudget {
    fn default() -> Self {
        Self {
            max_inline_bytes: 100_000,
            max_model_bytes: 100_000,
            strategy: Strategy::Artifact,
            preview: Preview::Head,
        }
    }
}
