//! How commands live and end (spec 6), judged from outside: by the host's process table, by what comes out of pipes and
//! terminals, by the report and by the clock. Each case runs as whoever runs the tests, root in CI, as an ordinary user, and
//! where no namespace can be had; each ends with a look whether anything of it is left.
//!
//! Sizes are scaled to what a CI machine does in seconds; `STOCKADE_LIFECYCLE_FULL=1` makes them whole (10 GB of output, a line
//! of 1 GB).
#![forbid(unsafe_code)]

mod background;
mod case;
mod ends;
mod given;
mod ladder;
mod leftovers;
mod output;
mod stopped;
mod terminal;
mod waits;

/// Makes each function a test as the caller, as an ordinary user, and without namespaces; those after `namespaced` only where
/// there are namespaces, since what they look at takes one.
macro_rules! cases {
    ($($case:ident),+ $(,)? $(; namespaced $($namespaced:ident),+ $(,)?)?) => {
        mod as_the_caller {
            use crate::case::{Case, Who};
            $(#[test]
            fn $case() {
                super::$case(Case::new(Who::Caller));
            })+
            $($(#[test]
            fn $namespaced() {
                super::$namespaced(Case::new(Who::Caller));
            })+)?
        }
        mod as_an_ordinary_user {
            use crate::case::{Case, Who};
            $(#[test]
            fn $case() {
                super::$case(Case::new(Who::OrdinaryUser));
            })+
            $($(#[test]
            fn $namespaced() {
                super::$namespaced(Case::new(Who::OrdinaryUser));
            })+)?
        }
        mod without_namespaces {
            use crate::case::{Case, Who};
            $(#[test]
            fn $case() {
                super::$case(Case::new(Who::WithoutNamespaces));
            })+
        }
    };
}
pub(crate) use cases;
