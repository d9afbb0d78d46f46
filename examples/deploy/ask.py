"""Start serve.py on what train.py wrote, and ask it for some digits: python ask.py [folder]"""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np

PORT = 8791
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
images = np.load(folder / "images.npy")
request = urllib.request.Request(f"http://127.0.0.1:{PORT}", json.dumps(images[:5].tolist()).encode())
command = [sys.executable, str(Path(__file__).parent / "serve.py"), str(folder / "digits.vmfb"), str(PORT)]
with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
    try:
        for _ in range(600):  # until it listens
            try:
                digits = json.load(urllib.request.urlopen(request, timeout=10))
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        print(f"the server says {digits}")
    finally:
        server.terminate()
assert len(digits) == 5
