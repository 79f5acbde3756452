//! Figures in lines that a message claims: `step 3 peak_allocated=9.82GiB CUDA out of memory in optimizer.step()`.

use std::cell::RefCell;
use std::rc::Rc;

use super::recogniser::Steps;
use crate::{Again, Found, Line, Recogniser, Sketch};

/// Looks at lines with a failure before the recognisers of messages do, and claims none of them.
#[derive(Debug)]
struct BesideFailures(Rc<RefCell<Steps>>);

/// Looks at all other lines, after the others have.
#[derive(Debug)]
struct Shared(Rc<RefCell<Steps>>);

/// The two recognisers of step logs: the first is to be asked before all others, the second after them.
pub fn recognisers() -> (Box<dyn Recogniser>, Box<dyn Recogniser>) {
    let steps = Rc::new(RefCell::new(Steps::new()));
    (Box::new(BesideFailures(Rc::clone(&steps))), Box::new(Shared(steps)))
}

impl Recogniser for BesideFailures {
    fn needles(&self) -> &'static [&'static str] {
        &["out of memory", "oom"]
    }

    fn line(&mut self, line: &Line<'_>, _found: &mut Found) -> bool {
        self.0.borrow_mut().beside_failure(line);
        false
    }

    fn end(&mut self, _found: &mut Found) {}
}

impl Recogniser for Shared {
    fn needles(&self) -> &'static [&'static str] {
        self.0.borrow().needles()
    }

    fn is_inside(&self) -> bool {
        self.0.borrow().is_inside()
    }

    fn heeds(&mut self, raw: &[u8]) -> bool {
        self.0.borrow_mut().heeds(raw)
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, line: &Line<'_>, index: usize, sketch: &mut Sketch) -> Option<bool> {
        self.0.borrow_mut().learn(line, index, sketch)
    }

    fn again(&mut self, index: usize, line: &Again<'_>) -> bool {
        self.0.borrow_mut().again(index, line)
    }

    fn line(&mut self, line: &Line<'_>, found: &mut Found) -> bool {
        self.0.borrow_mut().line(line, found)
    }

    fn end(&mut self, found: &mut Found) {
        self.0.borrow_mut().end(found);
    }
}
