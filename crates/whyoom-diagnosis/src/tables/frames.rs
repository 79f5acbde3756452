//! Whose code a frame is, and what of a stack matters to a diagnosis.

use whyoom_replay::{is_module_call, is_outermost_frame, is_python_frame};
use whyoom_snapshot::{FrameId, Snapshot, StackId, StackTable};

/// Whose code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user's program.
    User,
    /// An installed package other than PyTorch.
    Library,
    /// PyTorch, or code it generated.
    Torch,
    /// PyTorch's machinery that calls a module's `forward`.
    ModuleCall,
    /// Python's own library and what has no file.
    Stdlib,
    /// C++.
    Native,
}

/// Directories of PyTorch that show in the path of a source checkout.
const TORCH_PARTS: [&str; 12] = [
    "/torch/nn/",
    "/torch/autograd/",
    "/torch/optim/",
    "/torch/utils/",
    "/torch/cuda/",
    "/torch/amp/",
    "/torch/distributed/",
    "/torch/fx/",
    "/torch/jit/",
    "/torch/_dynamo/",
    "/torch/_inductor/",
    "/torch/_functorch/",
];

/// Whose code `function` in `file` is.
pub(crate) fn owner(file: &str, function: &str) -> Owner {
    if !is_python_frame(file, function) {
        return Owner::Native;
    }
    if is_module_call(file, function) {
        return Owner::ModuleCall;
    }
    if file.starts_with('<') {
        let is_typed_in = file.starts_with("<stdin") || file.starts_with("<ipython-input");
        return if is_typed_in { Owner::User } else { Owner::Stdlib };
    }
    let slashed;
    let path = if file.contains('\\') {
        slashed = file.replace('\\', "/");
        slashed.as_str()
    } else {
        file
    };
    if let Some((_, package)) = path.rsplit_once("-packages/") {
        return if package.starts_with("torch/") { Owner::Torch } else { Owner::Library };
    }
    if path.contains("/torchinductor_")
        || path.contains("/torch_compile_debug/")
        || TORCH_PARTS.iter().any(|p| path.contains(p))
    {
        return Owner::Torch;
    }
    let is_installed = ["/lib/python", "/lib64/python"].iter().any(|p| path.contains(p));
    let is_windows_library =
        path.get(1..2) == Some(":") && path.to_ascii_lowercase().contains("/lib/") && path.contains("ython");
    let is_launcher = path.contains("/bin/") && std::path::Path::new(path).extension().is_none();
    if is_installed || is_windows_library || is_launcher { Owner::Stdlib } else { Owner::User }
}

/// What matters of one stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Node of the deepest frame of the user or a library that is outside any module's `forward`:
    /// the call that the allocation belongs to. [`StackId::EMPTY`] = none.
    pub(crate) call: StackId,
    /// The same, of the user alone.
    pub(crate) user: StackId,
    /// Node of the deepest user frame anywhere.
    pub(crate) nearest: StackId,
    /// Outermost frame of Python: tells threads apart. `u32::MAX` = none.
    pub(crate) root: u32,
    /// Inside a module's `forward`.
    pub(crate) in_module: bool,
    /// Inside an optimizer, and not in a closure that it calls.
    pub(crate) in_optimizer: bool,
    /// Inside the conversion of a module's parameters and buffers (`Module._apply`), or its construction.
    pub(crate) in_module_setup: bool,
    /// A copy of a parameter or a tensor is made by `copy.deepcopy`.
    pub(crate) is_copy: bool,
    /// Inside the construction of a wrapper that keeps gradients in buckets of its own
    /// (`DistributedDataParallel.__init__`).
    pub(crate) in_buckets: bool,
    /// Below the call one function calls itself: a structure is walked (`copy.deepcopy`, `Module._apply`), and the
    /// same stack comes again for each of its elements.
    pub(crate) is_walk: bool,
    /// Inside the loss over classes (`cross_entropy`, `log_softmax`), which works in float32.
    pub(crate) in_loss: bool,
    /// Called from autograd's own thread (hooks, recomputation), which the program's frames do not show.
    pub(crate) in_autograd: bool,
}

impl Shape {
    const NONE: Self = Self {
        call: StackId::EMPTY,
        user: StackId::EMPTY,
        nearest: StackId::EMPTY,
        root: u32::MAX,
        in_module: false,
        in_optimizer: false,
        in_module_setup: false,
        is_copy: false,
        in_buckets: false,
        is_walk: false,
        in_loss: false,
        in_autograd: false,
    };

    /// Whether any frame of Python is known. Autograd's own threads have none.
    pub(crate) fn has_python(&self) -> bool {
        self.root != u32::MAX
    }
}

/// Shape of every stack of a file. One pass over its nodes.
#[derive(Debug)]
pub(crate) struct Shapes {
    shapes: Vec<Shape>,
}

#[derive(Clone, Copy)]
struct FrameFacts {
    owner: Owner,
    is_optimizer: bool,
    is_setup: bool,
    is_copy: bool,
    is_buckets: bool,
    is_loss: bool,
    is_autograd: bool,
    is_outermost: bool,
    is_forward: bool,
}

/// Functions of `torch/nn/functional.py` that autocast runs in float32 on something as large as the logits.
const LOSSES: [&str; 4] = ["cross_entropy", "log_softmax", "nll_loss", "binary_cross_entropy_with_logits"];

fn frame_facts(file: &str, function: &str) -> FrameFacts {
    let owner = owner(file, function);
    let is_torch = owner == Owner::Torch;
    let slashed = if is_torch { file.replace('\\', "/") } else { String::new() };
    FrameFacts {
        owner,
        is_optimizer: is_torch && slashed.contains("optim") && function == "step",
        is_copy: function == "__deepcopy__" || (owner == Owner::Stdlib && function == "deepcopy"),
        is_buckets: is_torch && slashed.ends_with("torch/nn/parallel/distributed.py") && function == "__init__",
        is_loss: is_torch && LOSSES.contains(&function) && slashed.ends_with("torch/nn/functional.py"),
        is_setup: is_torch && (function == "_apply" || function == "__init__") && slashed.contains("torch/nn/"),
        is_autograd: is_torch
            && (slashed.ends_with("torch/utils/checkpoint.py") || slashed.contains("torch/autograd/")),
        is_outermost: !is_torch && is_outermost_frame(file, function),
        is_forward: matches!(owner, Owner::User | Owner::Library) && function == "forward",
    }
}

impl Shapes {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let stacks = &snapshot.stacks;
        let frames = (0..).map_while(|id| snapshot.stacks.frame(FrameId(id)));
        let facts_of: Vec<FrameFacts> =
            frames.map(|f| frame_facts(snapshot.strings.get(f.file), snapshot.strings.get(f.function))).collect();
        let mut is_cut = vec![false; stacks.len().max(1)];
        let mut has_start = false;
        let mut shapes = vec![Shape::NONE; stacks.len().max(1)];
        for id in 1..stacks.len() {
            let node = StackId(id as u32);
            let Some((frame_id, _)) = stacks.frames(node).next() else { continue };
            let Some(facts) = facts_of.get(frame_id.0 as usize).copied() else { continue };
            // A caller's node is made before its callees'.
            let parent = stacks.parent(node).map_or(0, |p| p.0 as usize).min(id - 1);
            let mut shape = shapes[parent];
            is_cut[id] = is_cut[parent];
            if facts.owner != Owner::Native && shape.root == u32::MAX {
                shape.root = frame_id.0;
                shape.in_autograd = facts.is_autograd;
                is_cut[id] = !facts.is_outermost;
                has_start |= facts.is_outermost;
            }
            // Some recorders leave out the machinery that calls modules; the name tells as well.
            shape.in_module |= facts.is_forward;
            // What a closure does is not the optimizer's own work: it calls the program, or a module.
            let is_program = matches!(facts.owner, Owner::User | Owner::ModuleCall);
            shape.in_optimizer = (shape.in_optimizer && !is_program) || facts.is_optimizer;
            shape.in_module_setup |= facts.is_setup && !shape.in_module;
            shape.is_copy |= facts.is_copy;
            shape.in_buckets |= facts.is_buckets;
            shape.in_loss |= facts.is_loss;
            match facts.owner {
                Owner::ModuleCall => shape.in_module = true,
                Owner::User | Owner::Library => {
                    let is_user = facts.owner == Owner::User;
                    if !shape.in_module {
                        shape.call = node;
                        shape.is_walk = false;
                        if is_user {
                            shape.user = node;
                        }
                    }
                    if is_user {
                        shape.nearest = node;
                    }
                }
                Owner::Torch | Owner::Stdlib => {
                    shape.is_walk |= !shape.in_module && calls_itself(stacks, node, shape.call);
                }
                Owner::Native => {}
            }
            shapes[id] = shape;
        }
        for (shape, cut) in shapes.iter_mut().zip(&is_cut) {
            // Which call of the program a stack belongs to is not known without its outer end, nor on autograd's threads.
            if (*cut && has_start) || shape.in_autograd {
                (shape.call, shape.user, shape.in_module_setup) = (StackId::EMPTY, StackId::EMPTY, false);
            }
        }
        Self { shapes }
    }

    /// The shape of `stack`; that of the empty stack for a missing one.
    #[inline]
    pub(crate) fn of(&self, stack: StackId) -> &Shape {
        self.shapes.get(stack.0 as usize).unwrap_or(&Shape::NONE)
    }
}

/// Callers that are looked at for the same function: those that walk structures come again after a few.
const FAR: u32 = 32;

/// Whether the function of `node` is also among its callers up to the node `call`.
fn calls_itself(stacks: &StackTable, node: StackId, call: StackId) -> bool {
    let name = |id: StackId| stacks.frames(id).next().map(|(_, frame)| (frame.function, frame.file));
    let own = name(node);
    let mut at = node;
    for _ in 0..FAR {
        let Some(parent) = stacks.parent(at).filter(|p| p.0 < at.0 && *p != call && *p != StackId::EMPTY) else {
            break;
        };
        if name(parent) == own {
            return true;
        }
        at = parent;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_by_path() {
        for (file, function, expected) in [
            ("/workspace/train/scenarios.py", "lm", Owner::User),
            ("/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", "_call_impl", Owner::ModuleCall),
            ("/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", "_apply", Owner::Torch),
            ("/venv/lib/python3.12/site-packages/transformers/trainer.py", "train", Owner::Library),
            ("/usr/lib/python3/dist-packages/torch/optim/adam.py", "step", Owner::Torch),
            ("/usr/lib/python3.10/threading.py", "run", Owner::Stdlib),
            ("C:\\Python310\\lib\\threading.py", "run", Owner::Stdlib),
            ("C:\\me\\venv\\Lib\\site-packages\\torch\\nn\\modules\\module.py", "_call_impl", Owner::ModuleCall),
            ("C:\\me\\train.py", "main", Owner::User),
            ("<frozen runpy>", "_run_code", Owner::Stdlib),
            ("<string>", "f", Owner::Stdlib),
            ("<stdin>", "<module>", Owner::User),
            ("<ipython-input-3-abc>", "<module>", Owner::User),
            ("/tmp/torchinductor_me/ab/cab.py", "call", Owner::Torch),
            ("/usr/local/bin/torchrun", "<module>", Owner::Stdlib),
            ("??", "torch::unwind::unwind()", Owner::Native),
            ("/pytorch/torch/csrc/autograd/engine.cpp", "torch::autograd::Engine", Owner::Native),
        ] {
            assert_eq!(owner(file, function), expected, "{file} {function}");
        }
    }
}
