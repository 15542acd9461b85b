//! Many calls, several at once.

use crate::site::Site;
use crate::subjects::{self, Stream};
use crate::warm;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Measures and prints each way's total.
pub fn measure(site: &Site, runtime: &Runtime, calls: usize, at_once: usize) -> Result<()> {
    let noop = site.noop();
    let rows = [
        ("plain posix_spawn", threads(calls, at_once, || subjects::plain(&[noop]))?),
        ("stockade, warm (library)", runtime.block_on(library(site, calls, at_once))?),
        ("stockade exec, warm (one turn)", one_turn(site, calls)?),
        ("stockade run, cold", threads(calls, at_once, || subjects::stockade_run(site, &[noop]))?),
        ("bubblewrap", threads(calls, at_once, || subjects::bubblewrap(site, &[noop]))?),
    ];
    println!("{calls} calls of a static no-op, {at_once} at once (exec decides itself how many)");
    println!("{:<34}{:>12}{:>14}{:>10}", "", "total ms", "calls a second", "ratio");
    let plain = rows[0].1.as_secs_f64();
    for (name, took) in rows {
        let took = took.as_secs_f64();
        let rate = calls as f64 / took;
        println!("{name:<34}{:>12.1}{rate:>14.0}{:>9.2}x", took * 1e3, took / plain);
    }
    Ok(())
}

fn threads(calls: usize, at_once: usize, work: impl Fn() -> Result<()> + Sync) -> Result<Duration> {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        let worker = || {
            while next.fetch_add(1, Ordering::Relaxed) < calls {
                work()?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })
    .map(|()| started.elapsed())
}

async fn library(site: &Site, calls: usize, at_once: usize) -> Result<Duration> {
    let cell = warm::cell(site).await?;
    warm::call(&cell, site, &[site.noop()]).await?;
    let permits = Arc::new(Semaphore::new(at_once));
    let started = Instant::now();
    let one = || async {
        let _permit = permits.acquire().await.context("a permit")?;
        warm::call(&cell, site, &[site.noop()]).await
    };
    let mut running: Vec<_> = (0..calls).map(|_| Box::pin(one())).collect();
    std::future::poll_fn(|context| {
        let mut at = 0;
        while at < running.len() {
            match running[at].as_mut().poll(context) {
                std::task::Poll::Ready(Ok(())) => drop(running.swap_remove(at)),
                std::task::Poll::Ready(Err(error)) => return std::task::Poll::Ready(Err(error)),
                std::task::Poll::Pending => at += 1,
            }
        }
        if running.is_empty() { std::task::Poll::Ready(Ok(())) } else { std::task::Poll::Pending }
    })
    .await?;
    Ok(started.elapsed())
}

fn one_turn(site: &Site, calls: usize) -> Result<Duration> {
    let mut stream = Stream::start(site)?;
    stream.call(site.noop())?;
    let started = Instant::now();
    for _ in 0..calls {
        stream.send(site.noop())?;
    }
    for _ in 0..calls {
        stream.receive()?;
    }
    Ok(started.elapsed())
}
