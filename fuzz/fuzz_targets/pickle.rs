//! Any bytes as a pickle: read or refused, then salvaged, with a sink that keeps nothing but counts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyoom_pickle::{Kind, Limits, Machine, Ref, Refusal, ShapeId, Sink, Value};

/// Interns texts; containers become numbered references.
#[derive(Default)]
struct Count {
    texts: Vec<String>,
    containers: u32,
}

impl Count {
    fn next(&mut self, kind: u8) -> Result<Ref, Refusal> {
        self.containers += 1;
        Ok(Ref::new(Kind(kind), self.containers))
    }
}

impl Sink for Count {
    fn text(&mut self, text: &[u8]) -> Result<u32, Refusal> {
        self.texts.push(String::from_utf8_lossy(text).into_owned());
        Ok(self.texts.len() as u32 - 1)
    }

    fn resolve(&self, text: u32) -> &str {
        &self.texts[text as usize]
    }

    fn row(&mut self, _: ShapeId, keys: &[u32], values: &[Value]) -> Result<Ref, Refusal> {
        assert_eq!(keys.len(), values.len());
        assert!(keys.iter().all(|k| (*k as usize) < self.texts.len()));
        self.next(3)
    }

    fn dict(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal> {
        assert!(items.len() % 2 == 0);
        if matches!(target.kind, Kind::EMPTY_DICT | Kind(3)) { self.next(3) } else { Err(Refusal::NotAContainer) }
    }

    fn list(&mut self, target: Ref, items: &[Value]) -> Result<Ref, Refusal> {
        assert!(!items.is_empty());
        if matches!(target.kind, Kind::EMPTY_LIST | Kind(4)) { self.next(4) } else { Err(Refusal::NotAContainer) }
    }

    fn tuple(&mut self, items: &[Value]) -> Result<Ref, Refusal> {
        assert!(!items.is_empty());
        self.next(5)
    }

    fn is_interned(&self, kind: Kind) -> bool {
        kind == Kind(5)
    }

    fn salvage(&mut self, target: Ref, items: &[Value]) -> Option<Ref> {
        match target.kind {
            Kind::EMPTY_DICT | Kind(3) => self.next(3).ok(),
            Kind::EMPTY_LIST | Kind(4) if !items.is_empty() => self.next(4).ok(),
            _ => None,
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut machine = Machine::new(data, Count::default(), Limits::for_input(data.len()));
    match machine.run() {
        Ok(_) => assert!(machine.end() <= data.len()),
        Err(error) => {
            assert!(error.offset <= data.len());
            machine.salvage();
        }
    }
});
