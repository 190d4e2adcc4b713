"""Operators of transformers that ONNX defines by functions, where a direct form is shorter."""
