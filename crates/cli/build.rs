//! Reads the shipped policies when the binary is built: reading their text costs more than half a millisecond, which every cold
//! `stockade run` would pay.

use std::path::PathBuf;
use std::{env, fs};
use stockade_policy::{Policy, shipped_names};

fn main() {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut table = String::from("&[");
    for name in shipped_names() {
        let policy = Policy::load(name.as_ref()).unwrap_or_else(|error| panic!("{error}"));
        let bytes = postcard::to_allocvec(&policy).expect("a policy is plain data");
        fs::write(folder.join(name), bytes).expect("OUT_DIR can be written");
        table += &format!(
            "({name:?}, include_bytes!(concat!(env!(\"OUT_DIR\"), {:?}))), ",
            format!("/{name}")
        );
    }
    table += "]";
    fs::write(folder.join("shipped.rs"), table).expect("OUT_DIR can be written");
    // Only what this program is made of counts: the policies are part of a crate that it depends on.
    println!("cargo::rerun-if-changed=build.rs");
}
