use crate::schema::schema_of;
use crate::{
    CallContext, FrozenInput, InterruptBehavior, Metadata, ResultBudget, TimeoutRules, Tool,
    ToolError, ToolOutput,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

/// A tool made of a Rust type, from which its schema is derived, and a closure: one that gives a future ([`TypedTool::new`]), or plain code
/// that takes its time ([`TypedTool::blocking`]).
///
/// ```
/// use stockade_tools::{Registry, TypedTool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i64,
///     /// The second.
///     b: i64,
/// }
///
/// let add = TypedTool::new("Add", "Adds two numbers.", |add: Add, _| async move {
///     Ok((add.a + add.b).to_string())
/// });
/// Registry::new().register(std::sync::Arc::new(add.read_only()))?;
/// # Ok::<(), stockade_tools::RegistrationError>(())
/// ```
pub struct TypedTool<I, F> {
    name: String,
    description: String,
    input_schema: Value,
    output_schema: Option<Value>,
    metadata: Metadata,
    interrupt_behavior: InterruptBehavior,
    timeout_rules: TimeoutRules,
    budget: ResultBudget,
    cascades_on_error: bool,
    changes_context: bool,
    body: F,
    input: PhantomData<fn(I)>,
}

/// The future of a body that runs on a thread of its own.
type Blocking = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

impl<I: DeserializeOwned + JsonSchema + Send + 'static> TypedTool<I, ()> {
    /// A tool whose body is plain code, which waits without `await`: it runs on a thread that is there for it
    /// ([`crate::blocking`]). Declares nothing: exclusive, not read-only.
    ///
    /// ```
    /// use stockade_tools::{Registry, ToolError, TypedTool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Count {
    ///     /// A folder.
    ///     path: String,
    /// }
    ///
    /// let count = TypedTool::blocking("Count", "Counts a folder's entries.", |count: Count, _| {
    ///     let entries = std::fs::read_dir(count.path).map_err(|e| ToolError::Business(e.to_string()))?;
    ///     Ok(entries.count().to_string())
    /// });
    /// Registry::new().register(std::sync::Arc::new(count.read_only()))?;
    /// # Ok::<(), stockade_tools::RegistrationError>(())
    /// ```
    pub fn blocking<G, O>(
        name: impl Into<String>,
        description: impl Into<String>,
        body: G,
    ) -> TypedTool<I, impl Fn(I, CallContext) -> Blocking + Send + Sync>
    where
        G: Fn(I, CallContext) -> Result<O, ToolError> + Send + Sync + 'static,
        O: Into<ToolOutput>,
    {
        let body = Arc::new(body);
        TypedTool::new(name, description, move |input: I, context| -> Blocking {
            let body = Arc::clone(&body);
            Box::pin(crate::blocking(move || body(input, context).map(Into::into)))
        })
    }
}

impl<I: DeserializeOwned + JsonSchema, F> TypedTool<I, F> {
    /// A tool that declares nothing: exclusive, not read-only. A body that may block its thread belongs in
    /// [`TypedTool::blocking`].
    pub fn new<Fut, O>(name: impl Into<String>, description: impl Into<String>, body: F) -> Self
    where
        F: Fn(I, CallContext) -> Fut + Send + Sync,
        Fut: Future<Output = Result<O, ToolError>> + Send,
        O: Into<ToolOutput>,
    {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema: schema_of::<I>(),
            output_schema: None,
            metadata: Metadata::default(),
            interrupt_behavior: InterruptBehavior::Block,
            timeout_rules: TimeoutRules::default(),
            budget: ResultBudget::default(),
            cascades_on_error: false,
            changes_context: false,
            body,
            input: PhantomData,
        }
    }

    /// It only reads, and its calls may run beside others.
    pub fn read_only(self) -> Self {
        self.metadata(Metadata::READ_ONLY)
    }

    /// Its static flags (spec 1.3).
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Its outputs' values are of this type; anything else fails (spec 2.11). See [`Structured`].
    pub fn returns<O: JsonSchema>(mut self) -> Self {
        self.output_schema = Some(schema_of::<O>());
        self
    }

    /// A new message of the user stops its calls (spec 1.14).
    pub fn cancel_on_interrupt(mut self) -> Self {
        self.interrupt_behavior = InterruptBehavior::Cancel;
        self
    }

    /// Its time budgets (spec 2.8).
    pub fn timeouts(mut self, rules: TimeoutRules) -> Self {
        self.timeout_rules = rules;
        self
    }

    /// What the model may be given of its results (spec 8.1).
    pub fn budget(mut self, budget: ResultBudget) -> Self {
        self.budget = budget;
        self
    }

    /// A failing call of it cancels its siblings (spec 1.11).
    pub fn cascades_on_error(mut self) -> Self {
        self.cascades_on_error = true;
        self
    }

    /// Its calls may change the turn's shared context (spec 1.20).
    pub fn changes_context(mut self) -> Self {
        self.changes_context = true;
        self
    }
}

/// An output that is a value: `Ok(Structured(result))`.
pub struct Structured<O>(pub O);

impl<O: Serialize> From<Structured<O>> for ToolOutput {
    fn from(Structured(output): Structured<O>) -> Self {
        // What cannot be written as JSON has no value, and so fails the tool's output schema.
        Self { value: serde_json::to_value(output).ok(), ..Self::default() }
    }
}

#[async_trait]
impl<I, F, Fut, O> Tool for TypedTool<I, F>
where
    I: DeserializeOwned + JsonSchema + Send,
    F: Fn(I, CallContext) -> Fut + Send + Sync,
    Fut: Future<Output = Result<O, ToolError>> + Send,
    O: Into<ToolOutput>,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn input_schema(&self) -> &Value {
        &self.input_schema
    }

    fn output_schema(&self) -> Option<&Value> {
        self.output_schema.as_ref()
    }

    fn metadata(&self) -> Metadata {
        self.metadata
    }

    fn cascades_on_error(&self) -> bool {
        self.cascades_on_error
    }

    fn interrupt_behavior(&self) -> InterruptBehavior {
        self.interrupt_behavior
    }

    fn changes_context(&self) -> bool {
        self.changes_context
    }

    fn timeout_rules(&self) -> TimeoutRules {
        self.timeout_rules
    }

    fn budget(&self) -> ResultBudget {
        self.budget
    }

    fn has_last_word(&self) -> bool {
        false
    }

    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        (self.body)(input.parse()?, context.clone()).await.map(Into::into)
    }
}
