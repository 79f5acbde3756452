//! A sink that keeps everything, and a pickler for what it keeps.

use std::collections::HashMap;

use whyoom_pickle::{Item, Kind, Limits, Machine, Ref, Refusal, ShapeId, Sink, Value};

const DICT: Kind = Kind(3);
const LIST: Kind = Kind(4);
const TUPLE: Kind = Kind(5);
const PAIR: Kind = Kind(6);

/// A value as a tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Bytes,
    Text(String),
    List(Vec<Tree>),
    Tuple(Vec<Tree>),
    Dict(Vec<(Tree, Tree)>),
}

#[derive(Debug, Default)]
pub(crate) struct Keep {
    texts: Vec<String>,
    by_text: HashMap<String, u32>,
    dicts: Vec<Vec<(Value, Value)>>,
    lists: Vec<Vec<Value>>,
    pairs: Vec<(i64, i64)>,
    /// Times that [`Sink::row`] was called.
    pub(crate) rows: usize,
}

impl Keep {
    pub(crate) fn tree(&self, value: Value, depth: usize) -> Tree {
        assert!(depth < 200, "no test nests that deep");
        let tree = |v: &Value| self.tree(*v, depth + 1);
        match value.item() {
            Item::None | Item::Callable(_) => Tree::None,
            Item::Bool(b) => Tree::Bool(b),
            Item::Int(n) => Tree::Int(n.into()),
            Item::Big(n) => Tree::Int(n.into()),
            Item::Float(f) => Tree::Float(f),
            Item::Bytes => Tree::Bytes,
            Item::EmptyTuple => Tree::Tuple(Vec::new()),
            Item::Ref(r) => {
                let at = r.index as usize;
                match r.kind {
                    Kind::TEXT => Tree::Text(self.texts[at].clone()),
                    Kind::EMPTY_DICT => Tree::Dict(Vec::new()),
                    Kind::EMPTY_LIST => Tree::List(Vec::new()),
                    DICT => Tree::Dict(self.dicts[at].iter().map(|(k, v)| (tree(k), tree(v))).collect()),
                    LIST => Tree::List(self.lists[at].iter().map(tree).collect()),
                    TUPLE => Tree::Tuple(self.lists[at].iter().map(tree).collect()),
                    PAIR => {
                        let (a, b) = self.pairs[at];
                        Tree::Tuple(vec![Tree::Int(a.into()), Tree::Int(b.into())])
                    }
                    other => panic!("no such kind: {other:?}"),
                }
            }
        }
    }
}

impl Sink for Keep {
    fn text(&mut self, text: &[u8]) -> Result<u32, Refusal> {
        let text = String::from_utf8_lossy(text).into_owned();
        let next = self.texts.len() as u32;
        let id = *self.by_text.entry(text.clone()).or_insert(next);
        if id == next {
            self.texts.push(text);
        }
        Ok(id)
    }

    fn resolve(&self, text: u32) -> &str {
        &self.texts[text as usize]
    }

    fn row(&mut self, _: ShapeId, keys: &[u32], values: &[Value]) -> Result<Ref, Refusal> {
        assert_eq!(keys.len(), values.len());
        self.rows += 1;
        self.dicts.push(keys.iter().map(|k| Value::text(*k)).zip(values.iter().copied()).collect());
        Ok(Ref::new(DICT, self.dicts.len() as u32 - 1))
    }

    fn dict(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal> {
        let items = items.chunks_exact(2).map(|kv| (kv[0], kv[1]));
        match target.kind {
            Kind::EMPTY_DICT => self.dicts.push(items.collect()),
            DICT => {
                self.dicts[target.index as usize].extend(items);
                return Ok(target);
            }
            _ => return Err(Refusal::NotAContainer),
        }
        Ok(Ref::new(DICT, self.dicts.len() as u32 - 1))
    }

    fn list(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal> {
        match target.kind {
            Kind::EMPTY_LIST => self.lists.push(items.to_vec()),
            LIST => {
                self.lists[target.index as usize].extend(items);
                return Ok(target);
            }
            _ => return Err(Refusal::NotAContainer),
        }
        Ok(Ref::new(LIST, self.lists.len() as u32 - 1))
    }

    fn tuple(&mut self, items: &[Value]) -> Result<Ref, Refusal> {
        if let [a, b] = items
            && let (Some(a), Some(b)) = (a.as_int(), b.as_int())
        {
            self.pairs.push((a, b));
            return Ok(Ref::new(PAIR, self.pairs.len() as u32 - 1));
        }
        self.lists.push(items.to_vec());
        Ok(Ref::new(TUPLE, self.lists.len() as u32 - 1))
    }

    fn is_interned(&self, kind: Kind) -> bool {
        kind == PAIR
    }

    fn salvage(&mut self, target: Ref, items: &[Value]) -> Option<Ref> {
        match target.kind {
            Kind::EMPTY_DICT | DICT => self.dict(target, &items[..items.len() / 2 * 2]).ok(),
            _ => self.list(target, items).ok(),
        }
    }
}

/// Reads a pickle into a tree.
pub(crate) fn load(bytes: &[u8]) -> Result<Tree, whyoom_pickle::Error> {
    let mut machine = Machine::new(bytes, Keep::default(), Limits::for_input(bytes.len()));
    let value = machine.run()?;
    Ok(machine.into_sink().tree(value, 0))
}

/// Which pickler writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Python's, protocols 0 to 5. Batches are of three items instead of a thousand, to have several.
    Python(u8),
    /// PyTorch's C++ one.
    Cpp,
}

/// Writes trees as a pickler does.
pub(crate) struct Pickler {
    writer: Writer,
    pub(crate) out: Vec<u8>,
    memo: HashMap<String, u32>,
    next: u32,
}

impl Pickler {
    pub(crate) fn new(writer: Writer) -> Self {
        let mut pickler = Self { writer, out: Vec::new(), memo: HashMap::new(), next: 0 };
        match writer {
            Writer::Python(p) if p >= 2 => pickler.out.extend([0x80, p]),
            Writer::Python(_) => {}
            Writer::Cpp => pickler.out.extend([0x80, 2]),
        }
        if matches!(writer, Writer::Python(4..)) {
            pickler.out.extend(b"\x95\x00\x00\x00\x00\x00\x00\x00\x00");
        }
        pickler
    }

    pub(crate) fn dump(tree: &Tree, writer: Writer) -> Vec<u8> {
        let mut pickler = Self::new(writer);
        pickler.save(tree);
        pickler.out.push(b'.');
        pickler.out
    }

    fn is_binary(&self) -> bool {
        self.writer != Writer::Python(0)
    }

    fn store(&mut self) -> u32 {
        let at = self.next;
        self.next += 1;
        match self.writer {
            Writer::Python(4..) => self.out.push(0x94),
            Writer::Python(0) => self.out.extend(format!("p{at}\n").bytes()),
            _ if at < 256 => self.out.extend([b'q', at as u8]),
            _ => self.out.extend([b"r".as_slice(), &at.to_le_bytes()].concat()),
        }
        at
    }

    fn fetch(&mut self, at: u32) {
        match self.writer {
            Writer::Python(0) => self.out.extend(format!("g{at}\n").bytes()),
            _ if at < 256 => self.out.extend([b'h', at as u8]),
            _ => self.out.extend([b"j".as_slice(), &at.to_le_bytes()].concat()),
        }
    }

    fn text(&mut self, text: &str) {
        if let Some(at) = self.memo.get(text) {
            return self.fetch(*at);
        }
        let len = text.len() as u32;
        match self.writer {
            Writer::Python(0) => {
                self.out.push(b'V');
                for c in text.chars() {
                    match c {
                        '\\' | '\n' | '\0' | '\r' | '\x1a' => self.out.extend(format!("\\u{:04x}", c as u32).bytes()),
                        c if (c as u32) < 256 => self.out.push(c as u32 as u8),
                        c if (c as u32) < 0x10000 => self.out.extend(format!("\\u{:04x}", c as u32).bytes()),
                        c => self.out.extend(format!("\\U{:08x}", c as u32).bytes()),
                    }
                }
                self.out.push(b'\n');
            }
            Writer::Python(4..) if len < 256 => self.out.extend([0x8C, len as u8]),
            _ => self.out.extend([b"X".as_slice(), &len.to_le_bytes()].concat()),
        }
        if self.is_binary() {
            self.out.extend(text.bytes());
        }
        let at = self.store();
        self.memo.insert(text.to_owned(), at);
    }

    fn int(&mut self, n: i128) {
        if !self.is_binary() {
            return self.out.extend(format!("I{n}\n").bytes());
        }
        match n {
            0..256 => self.out.extend([b'K', n as u8]),
            256..65536 => self.out.extend([b'M', n as u8, (n >> 8) as u8]),
            _ if i32::try_from(n).is_ok() => self.out.extend([b"J".as_slice(), &(n as i32).to_le_bytes()].concat()),
            _ if self.writer == Writer::Python(1) => self.out.extend(format!("L{n}L\n").bytes()),
            _ => {
                // The shortest two's complement, as Python writes it.
                let bytes = n.to_le_bytes();
                let len = (1..=16).find(|len| {
                    let shift = 128 - 8 * *len as u32;
                    n << shift >> shift == n
                });
                let len = if self.writer == Writer::Cpp && i64::try_from(n).is_ok() { 8 } else { len.unwrap_or(16) };
                self.out.extend([0x8A, len as u8]);
                self.out.extend(&bytes[..len]);
            }
        }
    }

    fn batches<T>(&mut self, items: &[T], one: u8, many: u8, save: impl Fn(&mut Self, &T)) {
        match self.writer {
            Writer::Python(0) => {
                for item in items {
                    save(self, item);
                    self.out.push(one);
                }
            }
            Writer::Python(_) => {
                for batch in items.chunks(3) {
                    if let [item] = batch {
                        save(self, item);
                        self.out.push(one);
                    } else {
                        self.out.push(b'(');
                        for item in batch {
                            save(self, item);
                        }
                        self.out.push(many);
                    }
                }
            }
            Writer::Cpp => {
                self.out.push(b'(');
                for item in items {
                    save(self, item);
                }
                self.out.push(many);
            }
        }
    }

    pub(crate) fn save(&mut self, tree: &Tree) {
        let stores = self.writer != Writer::Cpp;
        match tree {
            Tree::None => self.out.push(b'N'),
            Tree::Bool(b) => match self.writer {
                Writer::Python(0 | 1) => self.out.extend(if *b { b"I01\n" } else { b"I00\n" }),
                _ => self.out.push(if *b { 0x88 } else { 0x89 }),
            },
            Tree::Int(n) => self.int(*n),
            Tree::Float(f) if self.is_binary() => self.out.extend([b"G".as_slice(), &f.to_be_bytes()].concat()),
            Tree::Float(f) => self.out.extend(format!("F{f:?}\n").bytes()),
            Tree::Bytes => self.out.extend(b"C\x02ab"),
            Tree::Text(text) => self.text(text),
            Tree::List(items) => {
                self.out.extend(if self.is_binary() { b"]".as_slice() } else { b"(l" });
                if stores {
                    self.store();
                }
                self.batches(items, b'a', b'e', Self::save);
            }
            Tree::Dict(items) => {
                self.out.extend(if self.is_binary() { b"}".as_slice() } else { b"(d" });
                if stores {
                    self.store();
                }
                self.batches(items, b's', b'u', |p, (key, value)| {
                    p.save(key);
                    p.save(value);
                });
            }
            Tree::Tuple(items) => {
                let short = matches!(self.writer, Writer::Python(2..) | Writer::Cpp);
                match items.len() {
                    0 if self.is_binary() => return self.out.push(b')'),
                    1..=3 if short => {
                        for item in items {
                            self.save(item);
                        }
                        self.out.push(0x84 + items.len() as u8);
                    }
                    _ => {
                        self.out.push(b'(');
                        for item in items {
                            self.save(item);
                        }
                        self.out.push(b't');
                    }
                }
                if stores && !items.is_empty() {
                    self.store();
                }
            }
        }
    }
}
