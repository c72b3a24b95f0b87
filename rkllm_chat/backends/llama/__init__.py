"""Engine for GGUF models through llama.cpp."""
