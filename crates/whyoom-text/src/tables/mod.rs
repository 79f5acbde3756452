//! PyTorch's own tables: memory_summary(), memory_stats(), memory_snapshot().
