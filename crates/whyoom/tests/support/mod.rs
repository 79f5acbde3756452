//! Small snapshots written by hand, and runs of the command line without a process.
#![allow(dead_code, unreachable_pub)]

use std::{ffi::OsString, path::PathBuf};

use whyoom::{Exit, Streams};

/// A value as Python has it.
pub enum Py {
    None,
    Bool(bool),
    Int(i64),
    Str(&'static str),
    List(Vec<Py>),
    Dict(Vec<(&'static str, Py)>),
}

impl Py {
    /// Protocol 2, without memo.
    pub fn pickle(&self) -> Vec<u8> {
        let mut out = vec![0x80, 2];
        self.write(&mut out);
        out.push(b'.');
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => out.push(b'N'),
            Self::Bool(true) => out.push(0x88),
            Self::Bool(false) => out.push(0x89),
            Self::Int(i) => {
                // LONG1: little-endian two's complement.
                out.extend([0x8a, 8]);
                out.extend(i.to_le_bytes());
            }
            Self::Str(s) => {
                out.push(b'X');
                out.extend((s.len() as u32).to_le_bytes());
                out.extend(s.as_bytes());
            }
            Self::List(items) => {
                out.extend(b"](");
                for item in items {
                    item.write(out);
                }
                out.push(b'e');
            }
            Self::Dict(items) => {
                out.extend(b"}(");
                for (key, value) in items {
                    Self::Str(key).write(out);
                    value.write(out);
                }
                out.push(b'u');
            }
        }
    }
}

const MIB: i64 = 1 << 20;
const BASE: i64 = 0x7f00_0000_0000;

fn event(action: &'static str, addr: i64, size: i64, time_us: i64) -> Py {
    let mut entry = vec![("action", Py::Str(action))];
    entry.push((if action == "oom" { "device_free" } else { "addr" }, Py::Int(addr)));
    entry.extend([
        ("size", Py::Int(size)),
        ("stream", Py::Int(0)),
        ("time_us", Py::Int(time_us)),
        (
            "frames",
            Py::List(vec![Py::Dict(vec![
                ("name", Py::Str("train")),
                ("filename", Py::Str("/home/me/train.py")),
                ("line", Py::Int(12)),
            ])]),
        ),
    ]);
    Py::Dict(entry)
}

fn block(address: i64, size: i64, state: &'static str) -> Py {
    Py::Dict(vec![
        ("address", Py::Int(address)),
        ("size", Py::Int(size)),
        ("requested_size", Py::Int(size)),
        ("state", Py::Str(state)),
        ("frames", Py::List(Vec::new())),
    ])
}

/// One 40 MiB block allocated and freed, and 40 MiB reserved at the end; with `ends_in_oom`, the block is kept and
/// a second request for as much fails.
pub fn snapshot(ends_in_oom: bool) -> Vec<u8> {
    let mut trace = vec![event("segment_alloc", BASE, 40 * MIB, 1), event("alloc", BASE, 40 * MIB, 2)];
    if ends_in_oom {
        trace.push(event("oom", 8 * MIB, 40 * MIB, 3));
    } else {
        trace.push(event("free_requested", BASE, 40 * MIB, 3));
        trace.push(event("free_completed", BASE, 40 * MIB, 4));
    }
    let state = if ends_in_oom { "active_allocated" } else { "inactive" };
    let active = if ends_in_oom { 40 * MIB } else { 0 };
    let segment = Py::Dict(vec![
        ("device", Py::Int(0)),
        ("address", Py::Int(BASE)),
        ("total_size", Py::Int(40 * MIB)),
        ("allocated_size", Py::Int(active)),
        ("active_size", Py::Int(active)),
        ("requested_size", Py::Int(active)),
        ("stream", Py::Int(0)),
        ("segment_type", Py::Str("large")),
        ("segment_pool_id", Py::List(vec![Py::Int(0), Py::Int(0)])),
        ("is_expandable", Py::Bool(false)),
        ("frames", Py::List(Vec::new())),
        ("blocks", Py::List(vec![block(BASE, 40 * MIB, state)])),
    ]);
    Py::Dict(vec![
        ("segments", Py::List(vec![segment])),
        ("device_traces", Py::List(vec![Py::List(trace)])),
        (
            "allocator_settings",
            Py::Dict(vec![
                ("PYTORCH_CUDA_ALLOC_CONF", Py::Str("")),
                ("max_split_size", Py::Int(-1)),
                ("garbage_collection_threshold", Py::Int(0)),
                ("expandable_segments", Py::Bool(false)),
            ]),
        ),
        ("external_annotations", Py::List(Vec::new())),
    ])
    .pickle()
}

/// A directory of this test's own, removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("whyoom-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory takes a directory");
        Self(path)
    }

    pub fn file(&self, name: impl AsRef<std::path::Path>, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("the temporary directory takes a file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a run said.
pub struct Ran {
    pub exit: Exit,
    pub out: String,
    pub err: String,
}

pub fn run<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Ran {
    run_with(args, b"")
}

pub fn run_with<A: Into<OsString>>(args: impl IntoIterator<Item = A>, stdin: &[u8]) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = std::iter::once(OsString::from("whyoom")).chain(args.into_iter().map(Into::into));
    let exit = whyoom::run(args, &mut Streams::captured(stdin, &mut out, &mut err));
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ran { exit, out: text(out), err: text(err) }
}
