//! What comes over the sockets between the runtime and the confined side. The first byte chooses the type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_plan::file::{FileMessage, FileReply};
use stockade_plan::{
    CellPlan, CellReply, CellRequest, CommandPlan, LauncherReply, LauncherRequest, WorkerPlan,
    decode, encode,
};

/// What can be read can be written, and is read back as the same.
macro_rules! round_trip {
    ($type:ty, $bytes:expr) => {
        if let Ok(value) = decode::<$type>($bytes) {
            let bytes = encode(&value).expect("a value that was read can be written");
            let again = decode::<$type>(&bytes).expect("what was written can be read");
            assert_eq!(format!("{value:?}"), format!("{again:?}"));
        }
    };
}

fuzz_target!(|input: &[u8]| {
    let Some((which, bytes)) = input.split_first() else { return };
    match which % 9 {
        0 => round_trip!(CellPlan, bytes),
        1 => round_trip!(CellRequest, bytes),
        2 => round_trip!(CellReply, bytes),
        3 => round_trip!(CommandPlan, bytes),
        4 => round_trip!(LauncherRequest, bytes),
        5 => round_trip!(LauncherReply, bytes),
        6 => round_trip!(WorkerPlan, bytes),
        7 => round_trip!(FileMessage, bytes),
        _ => round_trip!(FileReply, bytes),
    }
});
