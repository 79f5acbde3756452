//! Reads pickle opcodes into rows with bounded memory; calls nothing.
