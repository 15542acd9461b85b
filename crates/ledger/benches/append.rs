//! What a record costs its call (target: 20 µs without fsync), and what verifying does.

use criterion::{Criterion, Throughput};
use serde_json::json;
use stockade_ledger::{
    Entry, Event, FsyncPolicy, Ledger, LedgerOptions, LedgerPaths, VerifyOptions, verify,
};
use stockade_types::{CallId, SessionId};

fn entry() -> Entry {
    Entry {
        session: SessionId::new("0b5c9a52-bench").ok(),
        turn: Some(3),
        call: Some(CallId("toolu_0123456789".to_owned())),
        tool: Some("Bash".to_owned()),
        event: Event::CallRequested {
            arguments: json!({"command": "cargo test --workspace 2>&1 | tail -n 40", "timeout": 120_000}),
            arguments_sha256: "3d1c6c0a0b5c9a521f0e3d1c6c0a0b5c9a521f0e3d1c6c0a0b5c9a521f0e0000"
                .to_owned(),
        },
    }
}

fn append(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = LedgerPaths::of_state_dir(folder.path());
    let options = LedgerOptions { fsync: FsyncPolicy::Never, ..LedgerOptions::default() };
    let ledger = Ledger::open(paths.clone(), options).expect("a ledger");
    let entry = entry();
    criterion.bench_function("append one record", |bench| {
        bench.iter(|| ledger.append(&entry).expect("appended"));
    });
    let records = verify(&paths, &VerifyOptions::default()).expect("verified").records;
    let mut group = criterion.benchmark_group("verify");
    group.throughput(Throughput::Elements(records)).sample_size(10);
    group.bench_function("whole ledger", |bench| {
        bench.iter(|| verify(&paths, &VerifyOptions::default()).expect("verified"));
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    append(&mut criterion);
    criterion.final_summary();
}
