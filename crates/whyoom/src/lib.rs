//! Why a PyTorch run ran out of GPU memory, and which remedy would have stopped it.
