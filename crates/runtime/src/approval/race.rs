use super::{ApprovalRequest, Approver, ApproverKind, Decision};
use crate::HookError;
use crate::caught::{Panic, caught, caught_async, name_of, told};
use async_trait::async_trait;
use std::sync::Arc;

/// Answers questions of permission in a person's place, or leaves them to the person (spec 2.6). Hooks and approver are asked at the
/// same time; the first answer counts.
#[async_trait]
pub trait PermissionHook: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Decides, or with `None` leaves it to others. One that errs or panics says no.
    async fn decide(&self, request: &ApprovalRequest) -> Result<Option<Decision>, HookError>;

    /// Somebody else has decided.
    fn settled(&self, _request: &ApprovalRequest, _by: &str) {}
}

/// Who decided, and what.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) decision: Decision,
    pub(crate) kind: ApproverKind,
    /// The hook's name, for a hook's.
    pub(crate) name: String,
}

/// Asks the approver and the hooks, and tells those who were slower.
pub(crate) async fn race(
    approver: &dyn Approver,
    hooks: &[Arc<dyn PermissionHook>],
    request: &ApprovalRequest,
) -> Answer {
    let kind = kind_of(approver);
    let by_approver = async {
        let decision = match caught_async(async { approver.decide(request).await }).await {
            Ok(Ok(decision)) => decision,
            Ok(Err(error)) => {
                Decision::Deny { reason: format!("the approver failed: {}", told(error)) }
            }
            Err(Panic(message)) => {
                Decision::Deny { reason: format!("the approver panicked: {message}") }
            }
        };
        Answer { decision, kind, name: String::new() }
    };
    if hooks.is_empty() {
        return by_approver.await;
    }
    let by_hooks = first_of(hooks, request);
    tokio::pin!(by_approver, by_hooks);
    let answer = tokio::select! {
        biased;
        answer = &mut by_hooks => match answer {
            Some(answer) => answer,
            None => by_approver.await,
        },
        // With nobody to ask, the no is ready at once: the hooks come first.
        answer = &mut by_approver, if kind != ApproverKind::Deny => answer,
    };
    let by = if answer.name.is_empty() { "the approver" } else { &answer.name };
    if answer.kind == ApproverKind::Hook {
        settled(approver, &[], request, by);
    }
    let slower: Vec<_> =
        hooks.iter().filter(|hook| name_of(|| hook.name()) != answer.name).cloned().collect();
    for hook in slower {
        hook_settled(&*hook, request, by);
    }
    answer
}

/// Which kind an approver is.
pub(crate) fn kind_of(approver: &dyn Approver) -> ApproverKind {
    caught(|| approver.kind()).unwrap_or(ApproverKind::Custom)
}

/// Tells the approver, and hooks, that no answer is wanted any more.
pub(crate) fn settled(
    approver: &dyn Approver,
    hooks: &[Arc<dyn PermissionHook>],
    request: &ApprovalRequest,
    by: &str,
) {
    if let Err(panic) = caught(|| approver.settled(request, by)) {
        tracing::warn!(
            "an approver panicked when it was told that another had answered: {}",
            panic.0
        );
    }
    for hook in hooks {
        hook_settled(&**hook, request, by);
    }
}

fn hook_settled(hook: &dyn PermissionHook, request: &ApprovalRequest, by: &str) {
    if let Err(panic) = caught(|| hook.settled(request, by)) {
        let hook = name_of(|| hook.name());
        tracing::warn!(hook, "it panicked when it was told that another had answered: {}", panic.0);
    }
}

/// The first hook that has an opinion; all are asked at the same time.
async fn first_of(hooks: &[Arc<dyn PermissionHook>], request: &ApprovalRequest) -> Option<Answer> {
    let (answers, mut first) = tokio::sync::mpsc::unbounded_channel();
    let asking = async {
        let each = hooks.iter().map(|hook| {
            let answers = answers.clone();
            async move {
                let name = name_of(|| hook.name());
                let decision = match caught_async(async { hook.decide(request).await }).await {
                    Ok(Ok(None)) => return,
                    Ok(Ok(Some(decision))) => decision,
                    Ok(Err(error)) => Decision::Deny {
                        reason: format!("the hook {name} failed: {}", told(error)),
                    },
                    Err(Panic(message)) => {
                        Decision::Deny { reason: format!("the hook {name} panicked: {message}") }
                    }
                };
                let name = name.to_owned();
                // The first one is taken; nobody waits for the others.
                let _ = answers.send(Answer { decision, kind: ApproverKind::Hook, name });
            }
        });
        all(each).await;
    };
    tokio::select! {
        biased;
        answer = first.recv() => answer,
        () = asking => first.try_recv().ok(),
    }
}

/// Polls all of them until each has ended.
async fn all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut left: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(move |context| {
        left.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if left.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
