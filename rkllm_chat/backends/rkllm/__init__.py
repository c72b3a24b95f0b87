"""Engine for `.rkllm` models on the Rockchip NPU."""
