"""What is said on Windows."""

WINDOWS_NOTICE = "rkllm_chat does not run on Windows itself: install and start it inside WSL (wsl --install)."
