"""A stand-in for Rockchip's librkllmrt.so, in C, and how it is built and called."""
