//! Opcodes, protocols and the memo.

mod common;

use common::{Keep, Pickler, Tree, Writer, load};
use proptest::prelude::*;
use whyoom_pickle::{ErrorKind, Limits, Machine};

fn text(text: &str) -> Tree {
    Tree::Text(text.to_owned())
}

fn ints(n: impl IntoIterator<Item = i128>) -> Tree {
    Tree::List(n.into_iter().map(Tree::Int).collect())
}

fn error(bytes: &[u8]) -> (ErrorKind, usize) {
    match load(bytes) {
        Err(error) => (error.kind, error.offset),
        Ok(tree) => panic!("{bytes:?} reads as {tree:?}"),
    }
}

#[test]
fn scalars_of_every_opcode() {
    let cases: Vec<(&[u8], Tree)> = vec![
        (b"N.", Tree::None),
        (b"\x88.", Tree::Bool(true)),
        (b"\x89.", Tree::Bool(false)),
        (b"I01\n.", Tree::Bool(true)),
        (b"I00\n.", Tree::Bool(false)),
        (b"I-17\n.", Tree::Int(-17)),
        (b"K\xff.", Tree::Int(255)),
        (b"M\x01\x02.", Tree::Int(513)),
        (b"J\xff\xff\xff\xff.", Tree::Int(-1)),
        (b"L123456789012L\n.", Tree::Int(123_456_789_012)),
        (b"L-5L\n.", Tree::Int(-5)),
        (b"\x8a\x00.", Tree::Int(0)),
        (b"\x8a\x01\xff.", Tree::Int(-1)),
        (b"\x8a\x02\xff\x00.", Tree::Int(255)),
        (b"\x8a\x08\0\0\0\0\0\0\0\x80.", Tree::Int(i64::MIN.into())),
        (b"\x8a\x09\0\0\0\0\0\0\0\x80\0.", Tree::Int(1 << 63)),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0.", Tree::Int(u64::MAX.into())),
        (b"\x8b\x01\x00\x00\x00\x07.", Tree::Int(7)),
        (b"G\x3f\xf8\0\0\0\0\0\0.", Tree::Float(1.5)),
        (b"F-0.25\n.", Tree::Float(-0.25)),
        (b"F1e300\n.", Tree::Float(1e300)),
        (b"X\x02\0\0\0hi.", text("hi")),
        (b"\x8c\x02hi.", text("hi")),
        (b"\x8d\x02\0\0\0\0\0\0\0hi.", text("hi")),
        (b"Vh\xe9\\u20ac\\U0001f600\n.", text("hé€😀")),
        (b"S'a\\'b\\n\\x41'\n.", text("a'b\nA")),
        (b"S\"it's\"\n.", text("it's")),
        (b"T\x02\0\0\0hi.", text("hi")),
        (b"U\x02hi.", text("hi")),
        (b"C\x02hi.", Tree::Bytes),
        (b"B\x02\0\0\0hi.", Tree::Bytes),
        (b"\x8e\x02\0\0\0\0\0\0\0hi.", Tree::Bytes),
        (b"\x96\x02\0\0\0\0\0\0\0hi.", Tree::Bytes),
        (b").", Tree::Tuple(vec![])),
    ];
    for (bytes, tree) in cases {
        assert_eq!(load(bytes).as_ref(), Ok(&tree), "{bytes:?}");
    }
}

#[test]
fn integers_beyond_64_bits_saturate() {
    assert_eq!(load(b"\x8a\x09\0\0\0\0\0\0\0\0\x01."), Ok(Tree::Int(u64::MAX.into())));
    assert_eq!(load(b"\x8a\x09\0\0\0\0\0\0\0\0\xff."), Ok(Tree::Int(i64::MIN.into())));
    assert_eq!(load(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff."), Ok(Tree::Int(i64::MIN.into())));
    assert_eq!(load(b"L99999999999999999999999L\n."), Ok(Tree::Int(u64::MAX.into())));
    assert_eq!(load(b"I-99999999999999999999999\n."), Ok(Tree::Int(i64::MIN.into())));
}

#[test]
fn containers_of_every_opcode() {
    let pair = |k: &str, v| (text(k), Tree::Int(v));
    let cases: Vec<(&[u8], Tree)> = vec![
        (b"].", Tree::List(vec![])),
        (b"}.", Tree::Dict(vec![])),
        (b"\x8f(K\x01K\x02\x90.", ints([1, 2])),
        (b"(K\x01K\x02\x91.", Tree::Tuple(vec![Tree::Int(1), Tree::Int(2)])),
        (b"(K\x01K\x02l.", ints([1, 2])),
        (b"(l.", Tree::List(vec![])),
        (b"(X\x01\0\0\0aK\x01d.", Tree::Dict(vec![pair("a", 1)])),
        (b"(d.", Tree::Dict(vec![])),
        (b"](e.", Tree::List(vec![])),
        (b"}(u.", Tree::Dict(vec![])),
        (b"](K\x01K\x02eK\x03a(K\x04K\x05e.", ints([1, 2, 3, 4, 5])),
        (
            b"}(\x8c\x01aK\x01u\x8c\x01bK\x02s(\x8c\x01cK\x03u.",
            Tree::Dict(vec![pair("a", 1), pair("b", 2), pair("c", 3)]),
        ),
        (b"}(K\x01K\x02u.", Tree::Dict(vec![(Tree::Int(1), Tree::Int(2))])),
        (b"K\x01\x85.", Tree::Tuple(vec![Tree::Int(1)])),
        (b"K\x01K\x02\x86.", Tree::Tuple(vec![Tree::Int(1), Tree::Int(2)])),
        (b"K\x01K\x02K\x03\x87.", Tree::Tuple(vec![Tree::Int(1), Tree::Int(2), Tree::Int(3)])),
        (b"(t.", Tree::Tuple(vec![])),
        (b"](K\x01K\x02K\x030e.", ints([1, 2])),
        (b"](K\x01(K\x02K\x031e.", ints([1])),
        (b"](K\x01(0e.", ints([1])),
        (b"](K\x012e.", ints([1, 1])),
    ];
    for (bytes, tree) in cases {
        assert_eq!(load(bytes).as_ref(), Ok(&tree), "{bytes:?}");
    }
}

#[test]
fn references_see_what_a_container_became() {
    // Stored while empty, filled in two portions, named afterwards: the list [[1, 2], [1, 2]].
    let twice = Tree::List(vec![ints([1, 2]), ints([1, 2])]);
    assert_eq!(load(b"\x80\x04](]\x94K\x01aK\x02ah\x00e.").as_ref(), Ok(&twice));
    assert_eq!(load(b"\x80\x04](]q\x05(K\x01K\x02eh\x05e.").as_ref(), Ok(&twice));
    assert_eq!(load(b"((lp0\nI1\naI2\nag0\nl.").as_ref(), Ok(&twice));
    // Stored after it was closed, as the C++ pickler does.
    assert_eq!(load(b"\x80\x02](](K\x01K\x02eq\x00h\x00e.").as_ref(), Ok(&twice));
    // Numbers can be stored as well.
    assert_eq!(load(b"](K\x07q\x00h\x00e.").as_ref(), Ok(&ints([7, 7])));
    // A slot that is stored to again means the new thing from then on.
    let texts = Tree::List(vec![text("a"), text("b"), text("b")]);
    assert_eq!(load(b"](\x8c\x01aq\x00\x8c\x01bq\x00h\x00e.").as_ref(), Ok(&texts));
}

#[test]
fn ordered_and_default_dicts_are_dicts() {
    let one = Tree::Dict(vec![(text("a"), Tree::Int(1))]);
    let ordered = b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93)R\x94\x8c\x01aK\x01s.";
    assert_eq!(load(ordered).as_ref(), Ok(&one));
    let default = b"\x80\x02ccollections\ndefaultdict\nq\x00c__builtin__\nint\nq\x01\x85q\x02Rq\x03X\x01\0\0\0aK\x01s.";
    assert_eq!(load(default).as_ref(), Ok(&one));
}

#[test]
fn errors_say_what_and_where() {
    assert_eq!(error(b"](K\x01"), (ErrorKind::UnexpectedEnd("the next opcode"), 4));
    assert_eq!(error(b"](M\x01"), (ErrorKind::UnexpectedEnd("BININT2"), 2));
    assert_eq!(error(b"]\xff."), (ErrorKind::UnknownOpcode(0xFF), 1));
    assert_eq!(error(b"\x80\x06."), (ErrorKind::UnknownProtocol(6), 0));
    assert_eq!(error(b"a."), (ErrorKind::TooFewValues("APPEND"), 0));
    assert_eq!(error(b"]K\x01K\x02s."), (ErrorKind::Sink(whyoom_pickle::Refusal::NotAContainer), 5));
    assert_eq!(error(b"e."), (ErrorKind::NoMark("APPENDS"), 0));
    assert_eq!(error(b"K\x01(K\x02e."), (ErrorKind::NotAContainer("APPENDS"), 5));
    assert_eq!(error(b"}(K\x01u."), (ErrorKind::TooFewValues("SETITEMS"), 4));
    assert_eq!(error(b"]]."), (ErrorKind::LeftOver(2), 2));
    assert_eq!(error(b"](."), (ErrorKind::TooFewValues("STOP"), 2));
    assert_eq!(error(b"."), (ErrorKind::TooFewValues("STOP"), 0));
    assert_eq!(error(b"h\x05."), (ErrorKind::NoMemo(5), 0));
    assert_eq!(error(b"g-1\n."), (ErrorKind::Malformed("GET"), 0));
    assert_eq!(error(b"Ix\n."), (ErrorKind::Malformed("INT"), 0));
    assert_eq!(error(b"Fx\n."), (ErrorKind::Malformed("FLOAT"), 0));
    assert_eq!(error(b"V\\u12\n."), (ErrorKind::Malformed("UNICODE"), 0));
    assert_eq!(error(b"Sx\n."), (ErrorKind::Malformed("STRING"), 0));
    assert_eq!(error(b"cos\nsystem\n."), (ErrorKind::Global("os.system".to_owned()), 0));
    // Values below a mark are out of reach for the opcodes above it.
    assert_eq!(error(b"]K\x01(a."), (ErrorKind::TooFewValues("APPEND"), 4));
    assert_eq!(error(b"](\x94."), (ErrorKind::TooFewValues("MEMOIZE"), 2));
}

#[test]
fn nesting_and_values_are_limited() {
    let limits = Limits { depth: 4, stack: 64, memo: 4 };
    let run = |bytes: &[u8]| Machine::new(bytes, Keep::default(), limits).run().map_err(|e| e.kind);
    assert_eq!(run(b"(((((."), Err(ErrorKind::TooDeep(4)));
    assert_eq!(run(&b"N".repeat(200)), Err(ErrorKind::TooManyValues));
    assert_eq!(run(&b"N\x94".repeat(9)), Err(ErrorKind::MemoIndex(4)));
    assert_eq!(run(b"Nq\x04."), Err(ErrorKind::MemoIndex(4)));
}

#[test]
fn a_cut_pickle_keeps_what_was_read() {
    let whole = Tree::Dict(vec![
        (text("a"), ints([1, 2, 3, 4, 5, 6, 7])),
        (text("b"), Tree::List(vec![ints([1, 2, 3]), ints([4, 5, 6])])),
    ]);
    for writer in [Writer::Python(0), Writer::Python(2), Writer::Python(4), Writer::Cpp] {
        let bytes = Pickler::dump(&whole, writer);
        let mut longest = 0;
        for cut in 0..bytes.len() {
            let mut machine = Machine::new(&bytes[..cut], Keep::default(), Limits::for_input(cut));
            assert!(machine.run().is_err());
            let saved = machine.salvage();
            let saved = saved.map(|value| format!("{:?}", machine.into_sink().tree(value, 0)));
            longest = longest.max(saved.map_or(0, |s| s.matches("Int").count()));
        }
        assert_eq!(longest, 13, "{writer:?}");
    }
}

/// Small values of the kinds that snapshots have.
fn scalar() -> impl Strategy<Value = Tree> {
    let int = prop_oneof![
        (0..300i128),
        (60_000..70_000i128),
        any::<i32>().prop_map(i128::from),
        any::<i64>().prop_map(i128::from),
        any::<u64>().prop_map(i128::from),
    ];
    prop_oneof![
        Just(Tree::None),
        any::<bool>().prop_map(Tree::Bool),
        int.prop_map(Tree::Int),
        (-1e9..1e9f64).prop_map(Tree::Float),
        "[a-d]{0,2}".prop_map(Tree::Text),
        "\\PC{0,12}".prop_map(Tree::Text),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    scalar().prop_recursive(4, 64, 8, |inner| {
        let key = prop_oneof![4 => "[a-d]{1,2}".prop_map(Tree::Text), 1 => (0..9i128).prop_map(Tree::Int)];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Tree::List),
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::Tuple),
            prop::collection::vec((key, inner), 0..8).prop_map(Tree::Dict),
        ]
    })
}

/// Lists of dicts that have the same keys, or nearly.
fn rows() -> impl Strategy<Value = Tree> {
    let list = prop::collection::vec("[a-d]{1,2}".prop_map(Tree::Text), 0..6).prop_map(Tree::List);
    let pool = (0..3i128, 0..3i128).prop_map(|(a, b)| Tree::Tuple(vec![Tree::Int(a), Tree::Int(b)]));
    let value = prop_oneof![4 => scalar(), 2 => list, 1 => pool, 1 => tree()];
    let row = (prop::collection::vec(value, 6), 0..12usize).prop_map(|(values, odd)| {
        let keys = ["a", "b", "c", "d", "e", "f"];
        let mut items: Vec<_> = keys.iter().map(|k| text(k)).zip(values).collect();
        match odd {
            0 => items.truncate(3),
            1 => items.reverse(),
            2 => drop(items.remove(2)),
            3 => items.push((text("g"), Tree::None)),
            _ => {}
        }
        Tree::Dict(items)
    });
    prop::collection::vec(row, 0..12).prop_map(|rows| Tree::List(vec![Tree::List(rows), Tree::None]))
}

const WRITERS: [Writer; 7] = [
    Writer::Python(0),
    Writer::Python(1),
    Writer::Python(2),
    Writer::Python(3),
    Writer::Python(4),
    Writer::Python(5),
    Writer::Cpp,
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn what_is_written_is_read(tree in tree()) {
        for writer in WRITERS {
            prop_assert_eq!(load(&Pickler::dump(&tree, writer)), Ok(tree.clone()), "{:?}", writer);
        }
    }

    #[test]
    fn rows_are_read(tree in rows()) {
        for writer in WRITERS {
            prop_assert_eq!(load(&Pickler::dump(&tree, writer)), Ok(tree.clone()), "{:?}", writer);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(opcode(), 0..200)) {
        let bytes = bytes.concat();
        let mut machine = Machine::new(&bytes, Keep::default(), Limits::for_input(bytes.len()));
        if machine.run().is_err() {
            machine.salvage();
        }
    }
}

/// Opcodes with short arguments, so that a run of them gets somewhere.
fn opcode() -> impl Strategy<Value = Vec<u8>> {
    let plain = prop::sample::select(b"(.0125N]}lde})tua\x85\x86\x87\x88\x89\x8f\x90\x91\x94ebsR".to_vec())
        .prop_map(|op| vec![op]);
    let get = (prop::sample::select(b"hqK".to_vec()), 0..12u8).prop_map(|(op, arg)| vec![op, arg]);
    let key = (0..4u8).prop_map(|c| vec![0x8C, 1, b'a' + c, 0x94]);
    let row = Just(b"}\x94(h\x00K\x01h\x01K\x02u".to_vec());
    prop_oneof![3 => plain, 3 => get, 2 => key, 1 => row, 1 => any::<u8>().prop_map(|b| vec![b])]
}
