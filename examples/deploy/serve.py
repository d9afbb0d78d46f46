"""Serve the classifier over HTTP. Needs NumPy, ml_dtypes and iree-base-runtime: python serve.py digits.vmfb [port]"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np

import veery_runtime

model = veery_runtime.load(sys.argv[1])
batch = model.predict.inputs[0][0][0]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        images = np.array(json.loads(self.rfile.read(int(self.headers["Content-Length"]))), np.float32)
        padded = np.zeros((batch, 64), np.float32)
        padded[: len(images)] = images
        digits = model.predict(padded)[: len(images)].argmax(axis=1)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(digits.tolist()).encode())


HTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 8000), Handler).serve_forever()
