//! What monitors print: nvidia-smi in its forms, gpustat, nvitop, DCGM, exported metrics.
