//! Collecting what was read before the input ended.

use crate::{Kind, Ref, Sink, Value};

/// Closes all open containers, innermost first, and returns what the outermost became.
///
/// `marks` are the stack heights at the open marks, outermost first; the keys of dicts are on the stack.
pub(crate) fn salvage<S: Sink>(sink: &mut S, stack: &mut Vec<Value>, marks: &[usize]) -> Option<Value> {
    for at in marks.iter().rev() {
        let at = *at;
        if at == 0 || at > stack.len() {
            continue;
        }
        let Some(target) = stack[at - 1].as_ref() else {
            stack.truncate(at - 1);
            continue;
        };
        let is_dict = target.kind == Kind::EMPTY_DICT;
        if is_dict {
            fold(sink, stack, at);
        }
        let made = sink.salvage(target, &stack[at..]);
        stack.truncate(at - 1);
        stack.extend(made.map(Value::of));
    }
    if let Some(target) = stack.first().and_then(|v| v.as_ref()) {
        fold(sink, stack, 1);
        if stack.len() > 1 {
            let made = sink.salvage(target, &stack[1..]);
            stack.clear();
            stack.extend(made.map(Value::of));
        }
    }
    stack.first().copied()
}

/// A dict's items are keys and values in turn; what follows a value and is no key lies inside that value, one level
/// deeper each. Folds such a chain into its value.
fn fold<S: Sink>(sink: &mut S, stack: &mut Vec<Value>, at: usize) {
    let mut end = at;
    while stack.get(end).is_some_and(|k| k.as_text().is_some()) && end + 1 < stack.len() {
        end += 2;
    }
    if end <= at || end >= stack.len() || stack[end].as_text().is_some() {
        return;
    }
    let chain = stack[end..].iter().take_while(|v| v.as_text().is_none()).count();
    // A text in the chain is the key of an item of a dict that is incomplete.
    let complete = end + chain == stack.len();
    stack.truncate(end + chain);
    if !complete {
        stack.pop();
    }
    while stack.len() > end {
        let item = stack.pop();
        let (Some(item), Some(target)) = (item, stack.pop().and_then(Value::as_ref)) else { return };
        let made: Option<Ref> = sink.salvage(target, &[item]);
        // Without a value, the key before it stays alone and is passed over.
        stack.extend(made.map(Value::of));
    }
}
