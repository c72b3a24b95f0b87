"""The program with models that others trained: .ci/real_models FOLDER, then RKLLM_CHAT_REAL_MODELS=FOLDER."""

REAL_MODELS = "RKLLM_CHAT_REAL_MODELS"
SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
QWEN = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
