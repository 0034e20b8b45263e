"""Models that leave home: as ONNX graphs with a small runner, or as one HTML file."""
