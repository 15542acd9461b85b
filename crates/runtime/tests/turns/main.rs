//! Whole turns, by the public interface: who holds up whom, what hooks say of results, and turns as nobody means them.

mod after_hooks;
mod blocking;
mod hook_verdicts;
mod odd;
mod scene;
mod woken_by_bodies;
